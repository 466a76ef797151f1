#!/usr/bin/env bash
# @SLUG@: repeats a text. Change describe and run into what the tool is to do; see
#   agents tool describe ./@FILE@
#   agents tool call ./@FILE@ --arg text=hello --arg times=2
set -euo pipefail

describe() {
	cat <<'JSON'
{
  "slug": "@SLUG@",
  "description": "Repeats a text, each time on a line of its own.",
  "effects": "none",
  "args": [
    {
      "name": "times",
      "description": "how often, 1 to 100; 1 if it is left out",
      "type": "count",
      "backing_type": "integer",
      "arity": "optional",
      "mode": "dashdashequal"
    },
    {
      "name": "text",
      "description": "the text",
      "type": "text",
      "backing_type": "string",
      "arity": "single",
      "mode": "stdin"
    }
  ]
}
JSON
}

# What goes wrong is said on stderr; the model sees it with the exit code.
fail() {
	printf '%s: %s\n' '@SLUG@' "$1" >&2
	exit "${2:-1}"
}

run() {
	local argument text times=1 i
	for argument in "$@"; do
		case $argument in
		--times=*) times=${argument#--times=} ;;
		*) fail "unknown argument $argument" 2 ;;
		esac
	done
	[[ $times =~ ^([1-9][0-9]?|100)$ ]] || fail "times must be a whole number from 1 to 100, not $times" 2

	# One newline behind the text is the runtime's. The x keeps the others,
	# which $(…) would take away.
	text=$(cat && printf x)
	text=${text%x}
	text=${text%$'\n'}

	for ((i = 0; i < times; i++)); do
		printf '%s\n' "$text"
	done
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: @FILE@ describe | run [--times=N] <TEXT' 2 ;;
esac
