#!/bin/sh
# gate.sh RUNTIME ROOT PYTHON HOOK: the check before a write, for clients that can't filter by path themselves.
#
# Most writes concern nothing of the workspace; they are let through here, for the price of a shell. Only a payload that
# speaks of the workspace, by its path or its folder's name, is handed to the program that checks it. A file reached by
# a link of another name is not seen here; what it changes has no effect until a commit has passed the gate.
[ -z "${HARNESS_LINEAGE-}" ] || exit 0
[ -d "${1-}" ] || exit 0
exec 2>/dev/null
runtime=$1 root=$2 python=$3 hook=$4

# A client that never closes the pipe must not hold the session.
if command -v timeout >/dev/null; then
  payload=$(timeout 2 cat)
else
  payload=$(cat)
fi

name=${root##*/}
case $root in
  # In JSON such a path is written otherwise than it is; let the program decide.
  *[!A-Za-z0-9_./@%+=:,\ \(\)\'~-]*) ;;
  *)
    case $payload in
      *"$root"* | *"/$name/"* | *"\"$name/"* | *"/$name\""*) ;;
      *) exit 0 ;;
    esac
    ;;
esac
printf '%s' "$payload" | "$python" -I -S "$hook" "$root" "$runtime"
exit 0
