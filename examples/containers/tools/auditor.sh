#!/bin/sh
# auditor: an agent in a container. What it may use is decided here.
set -eu
cd -- "$(dirname -- "$0")/.."
exec podman run -i --rm --pull=never --network=none --read-only --cap-drop=all --security-opt=no-new-privileges --pids-limit=64 \
	--volume="$PWD/ledger:/ledger:ro" --workdir=/ledger localhost/agents-example-auditor \
	agents --quiet --agent-file /agent/agent.json "$@"
