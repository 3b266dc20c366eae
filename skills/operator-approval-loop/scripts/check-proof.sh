#!/bin/sh
# Check a proof of `harness ledger proof` with git and sha256sum alone: check-proof.sh PROOF REPOSITORY
# Each part's bytes have the hash that the proof states, git holds the same bytes and every row, and the decision's row names
# the hash of the text.
set -eu
proof=$1 repo=$2 bad=0
say() { printf '%s\n' "$*"; }
fail() { say "WRONG: $*"; bad=1; }

header=$(sed -n '1,/^--$/p' "$proof")
at=$(sed -n '1,/^--$/p' "$proof" | wc -c)
[ "$(say "$header" | sed -n 1p)" = "harness approval proof 1" ] || { say "WRONG: no proof of a known form"; exit 1; }

text=
commit=
while IFS= read -r line; do
  case $line in
  "part: "*)
    # shellcheck disable=SC2086
    set -- ${line#part: }
    found=$(tail -c "+$((at + 1))" "$proof" | head -c "$2" | sha256sum | cut -d' ' -f1)
    at=$((at + $2))
    [ "$found" = "$1" ] && say "ok     bytes of $4: sha256 $1" || fail "the bytes of $4 have sha256 $found, not $1"
    [ -n "$text" ] || text=$1
    kept="${kept-} $1:$3"
    ;;
  "row: "*)
    rest=${line#row: }
    commit=${rest%% *} rest=${rest#* }
    path=${rest%% *} row=${rest#* }
    if git -C "$repo" merge-base --is-ancestor "$commit" HEAD 2>/dev/null &&
      git -C "$repo" show "$commit:$path" | grep -qxF -e "$row"; then
      say "ok     row in $path at $commit"
    else
      fail "git has no such row in $path at $commit"
    fi
    case $row in
    *'"event":"decisions.decided"'*)
      case $row in
      *"\"shown_sha256\":\"$text\""*) say "ok     the decision names this text" ;;
      *) fail "the decision names another text" ;;
      esac
      ;;
    esac
    ;;
  esac
done <<EOF
$header
EOF
[ -n "$commit" ] || fail "the proof has no rows"
[ "$(wc -c <"$proof")" -eq "$at" ] || fail "there is more in the file than its parts"
for one in ${kept-}; do
  if [ "$(git -C "$repo" show "HEAD:${one#*:}" 2>/dev/null | sha256sum | cut -d' ' -f1)" = "${one%%:*}" ]; then
    say "ok     git holds ${one#*:}"
  else
    fail "git doesn't hold ${one#*:}"
  fi
done
[ "$bad" -eq 0 ] && say "the proof holds"
exit "$bad"
