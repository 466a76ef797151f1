#!/bin/sh
# archivist: another agent as a tool, in a process of its own.
#
# agents answers describe and run itself, so this passes its arguments on, and
# standard input with the prompt. What the other agent may see and use is decided
# here, not by whoever calls it.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# Its working directory: its tools look into the archive and nowhere else.
cd -- "$here/archive"

# Its environment: of ours it gets only what is named here. Its keys file is
# agents-exe.keys beside its agent.json, if it has one.
exec env -i PATH="$PATH" HOME="${HOME:-/}" \
	agents --quiet --agent-file "$here/archivist/agent.json" "$@"
