#!/bin/sh
# find_numbers: the numbers in a text file, with what stands around them.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "find_numbers",
  "description": "Finds the numbers in a text file. Prints one a line, with the number of its line and the word behind it.",
  "effects": "none",
  "empty-result": {"tag": "AddMessage", "contents": "There is no number in it."},
  "args": [
    {
      "name": "path",
      "description": "the text file",
      "type": "file-path",
      "backing_type": "string",
      "arity": "single",
      "mode": "positional"
    }
  ]
}
JSON
}

fail() {
	printf 'find_numbers: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -eq 1 ] || fail 'want PATH' 2
	[ -f "$1" ] && [ -r "$1" ] || fail "there is no file $1 that can be read"
	# Standard input, because awk takes a=b for an assignment and not for a file.
	awk '
		{
			for (i = 1; i <= NF; i++)
				if ($i ~ /[0-9]/)
					print "line " NR ": " $i (i < NF ? " " $(i + 1) : "")
		}
	' <"$1"
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: find-numbers.sh describe | run PATH' 2 ;;
esac
