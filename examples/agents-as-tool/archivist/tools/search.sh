#!/bin/sh
# search: the lines of the working directory's text files that hold a word.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "search",
  "description": "Searches the text files of the archive for a word or a part of one. Prints each line that has it, with file and line number. Upper and lower case are the same.",
  "effects": "none",
  "empty-result": {"tag": "AddMessage", "contents": "Nothing found."},
  "args": [
    {
      "name": "word",
      "description": "the word",
      "type": "text",
      "backing_type": "string",
      "arity": "single",
      "mode": "dashdashequal"
    }
  ]
}
JSON
}

fail() {
	printf 'search: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -eq 1 ] || fail 'want --word=WORD' 2
	case $1 in
	--word=?*) word=${1#--word=} ;;
	*) fail 'want --word=WORD' 2 ;;
	esac
	set -- *.txt
	[ -f "$1" ] || fail 'there are no text files in the archive'
	# grep says with 1 that there is nothing, which is no failure.
	status=0
	grep -Fin -e "$word" -- /dev/null "$@" || status=$?
	[ "$status" -le 1 ] || fail "grep failed with exit code $status"
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: search.sh describe | run --word=WORD' 2 ;;
esac
