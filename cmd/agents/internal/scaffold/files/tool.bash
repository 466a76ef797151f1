#!/usr/bin/env bash
# @SLUG@: repeats a text. Change it into what the tool is to do; see
#   agents tool describe ./@FILE@
#   agents tool call ./@FILE@ --arg text=hello --arg times=2
set -euo pipefail
. "$(dirname "$0")/agents_tool.sh" # which says what tool, arg and start do

tool @SLUG@ 'Repeats a text, each time on a line of its own.' none
arg times:int=1 'how often, 1 to 100'
arg text:stdin 'the text'
start "$@"

# What goes wrong is said on stderr; the model sees it with the exit code.
[ "$times" -ge 1 ] && [ "$times" -le 100 ] || fail "times must be a whole number from 1 to 100, not $times" 2
for ((i = 0; i < times; i++)); do
	printf '%s\n' "$text"
done
