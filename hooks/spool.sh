#!/bin/sh
# spool.sh RUNTIME: keep one event of the client as one file of the spool, unread.
#
# stdin goes to RUNTIME/spool/<parent's pid>.<own pid> as it is; the drain parses, filters and deletes. Two files of one
# name can only come from a reused pid, so the file is appended to and never replaced. The answer to the client is
# always the same: exit 0 and not one byte, whatever happens. Three processes at most: this shell, timeout, cat.
[ -z "${HARNESS_LINEAGE-}" ] || exit 0
[ -d "${1-}" ] || exit 0
exec 2>/dev/null
umask 077
[ -d "$1/spool" ] || mkdir "$1/spool"
file=$1/spool/$PPID.$$
earlier=
[ ! -s "$file" ] || earlier=1

# A client that never closes the pipe must not hold the session: five seconds are far more than any payload needs.
if command -v timeout >/dev/null; then
  timeout 5 cat >>"$file"
else
  cat >>"$file"
fi
status=$?

if [ "$status" -ne 0 ]; then
  # A payload cut by a full disk is of no use and would need the space back; one cut by the deadline may be whole.
  [ "$status" -eq 124 ] || [ -n "$earlier" ] || [ ! -f "$file" ] || : >"$file"
  echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) spool SpoolFailed: an event was not kept whole (status $status)" >>"$1/hook-errors.log"
fi
exit 0
