#!/bin/sh
# which_program: what a command of this name would run.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "which_program",
  "description": "Tells which file a shell command runs. Fails if there is no such command.",
  "effects": "none",
  "args": [
    {
      "name": "name",
      "description": "the name of the command, without arguments",
      "type": "command-name",
      "backing_type": "string",
      "arity": "single",
      "mode": "dashdashequal"
    }
  ]
}
JSON
}

fail() {
	printf 'which_program: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -eq 1 ] || fail 'want --name=NAME' 2
	case $1 in
	--name=-*) fail "no command begins with a dash: ${1#--name=}" 2 ;;
	--name=?*) name=${1#--name=} ;;
	*) fail 'want --name=NAME' 2 ;;
	esac
	command -v "$name" || fail "there is no command $name"
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: which-program.sh describe | run --name=NAME' 2 ;;
esac
