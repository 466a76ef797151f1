#!/bin/sh
# secretary: an agent in a container. What it may use is decided here.
set -eu
cd -- "$(dirname -- "$0")/.."
exec podman run -i --rm --pull=never --network=none --read-only --cap-drop=all --security-opt=no-new-privileges --pids-limit=64 \
	--volume="$PWD/minutes:/minutes" --workdir=/minutes localhost/agents-example-secretary \
	agents --quiet --agent-file /agent/agent.json "$@"
