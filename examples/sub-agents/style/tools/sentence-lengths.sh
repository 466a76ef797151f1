#!/bin/sh
# sentence_lengths: how many words the sentences of a text have.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "sentence_lengths",
  "description": "Counts the words of each sentence in a text file. Prints a line for each, the longest first: the number of words and the first four of them.",
  "effects": "none",
  "empty-result": {"tag": "AddMessage", "contents": "There is no sentence in it."},
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
	printf 'sentence_lengths: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -eq 1 ] || fail 'want PATH' 2
	[ -f "$1" ] && [ -r "$1" ] || fail "there is no file $1 that can be read"
	awk '
		function finish() {
			if (words > 0)
				print words " words: " start
			words = 0
			start = ""
		}
		NF == 0 { finish() }
		{
			for (i = 1; i <= NF; i++) {
				words++
				if (words <= 4)
					start = start (words > 1 ? " " : "") $i
				if ($i ~ /[.!?][")]*$/)
					finish()
			}
		}
		END { finish() }
	' <"$1" | sort -rn
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: sentence-lengths.sh describe | run PATH' 2 ;;
esac
