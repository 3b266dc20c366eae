#!/bin/sh
# Empties the queue of this workspace: for cron and for people. It runs the interpreter that `harness init` noted in the
# untracked runtime folder, so the same script works on every machine that has this workspace.
here=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
note=$(git -C "$here" rev-parse --absolute-git-dir)/harness/python
if [ ! -r "$note" ]; then
    echo "drain.sh: harness is not set up on this machine. Run \`harness init\` in $here" >&2
    exit 3
fi
read -r python < "$note"
exec "$python" -P -m harness --workspace "$here" drain "$@"
