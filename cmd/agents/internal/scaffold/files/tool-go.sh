#!/bin/sh
# @SLUG@: repeats a text; a tool in Go. Change describe here and run in
# @SLUG@-src/main.go into what the tool is to do; see
#   agents tool describe ./@FILE@
#   agents tool call ./@FILE@ --arg text=hello --arg times=2
#
# The description is here, so that looking at the tool builds nothing. A call
# builds the program if its source has changed.
set -eu

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

fail() {
	printf '%s: %s\n' '@SLUG@' "$1" >&2
	exit "${2:-1}"
}

# build makes the program. Calls at the same time do not disturb each other: each
# puts a whole file in its place.
build() {
	command -v go >/dev/null || fail 'it needs the go command, which is not in PATH'
	(cd "$source" && GOWORK=off go build -buildvcs=false -o "$program.$$" .) || fail 'the program does not build'
	mv -f "$program.$$" "$program"
}

case ${1:-} in
describe) describe ;;
run)
	source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/@SLUG@-src
	program=$source/@SLUG@.built
	if [ ! -x "$program" ] || [ -n "$(find "$source" -type f ! -name '@SLUG@.built*' -newer "$program")" ]; then
		build
	fi
	exec "$program" "$@"
	;;
*) fail 'usage: @FILE@ describe | run [--times=N] <TEXT' 2 ;;
esac
