#!/bin/sh
# check_message: does a commit message look as it should?
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "check_message",
  "description": "Checks the form of a commit message: a subject of at most 60 characters without a full stop, an empty line, a body of lines with at most 72 characters. Prints what has to be corrected, a line for each.",
  "effects": "none",
  "args": [
    {
      "name": "message",
      "description": "the whole message",
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
		function wrong(what) {
			print what
			problems++
		}
		NR == 1 && $0 ~ /^[ \t]*$/ { wrong("line 1: the subject is missing") }
		NR == 1 && length($0) > 60 { wrong("line 1: the subject has " length($0) " characters, 60 are allowed") }
		NR == 1 && /\.[ \t]*$/ { wrong("line 1: the subject must not end with a full stop") }
		NR == 2 && $0 != "" { wrong("line 2: it must be empty") }
		NR > 2 && length($0) > 72 { wrong("line " NR ": it has " length($0) " characters, 72 are allowed") }
		/^```/ { wrong("line " NR ": a code fence does not belong here") }
		END {
			if (NR == 0)
				wrong("line 1: the subject is missing")
			if (problems == 0)
				print "The message is fine."
		}
	'
}

case ${1:-} in
describe) describe ;;
run) run ;;
*)
	echo 'usage: check-message.sh describe | run <MESSAGE' >&2
	exit 2
	;;
esac
