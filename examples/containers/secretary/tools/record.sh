#!/bin/sh
# record: adds a text to minutes.txt in the working directory.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "record",
  "description": "Adds a text to the minutes and says how many lines they have.",
  "effects": "once",
  "args": [
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

case ${1:-} in
describe) describe ;;
run)
	text=$(cat)
	printf '%s\n' "$text" >>minutes.txt
	printf 'It is on record, line %d of the minutes.\n' "$(wc -l <minutes.txt)"
	;;
*)
	echo 'usage: record.sh describe | run <TEXT' >&2
	exit 2
	;;
esac
