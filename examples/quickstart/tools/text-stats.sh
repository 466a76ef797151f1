#!/bin/sh
# text_stats: counts the lines and words of a text.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "text_stats",
  "description": "Counts a text. The result is JSON: lines (those that are not blank), words, and longest, the length of the longest line in bytes.",
  "effects": "none",
  "args": [
    {
      "name": "text",
      "description": "the text to count",
      "type": "text",
      "backing_type": "string",
      "arity": "single",
      "mode": "stdin"
    }
  ]
}
JSON
}

run() {
	awk '
		NF > 0 { lines++ }
		{ words += NF }
		length($0) > longest { longest = length($0) }
		END { printf "{\"lines\": %d, \"words\": %d, \"longest\": %d}\n", lines, words, longest }
	'
}

case ${1:-} in
describe) describe ;;
run) run ;;
*)
	printf 'usage: text-stats.sh describe | run <TEXT\n' >&2
	exit 2
	;;
esac
