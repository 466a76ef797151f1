#!/bin/sh
# headline: sets a text as a headline.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "headline",
  "description": "Sets a text as a headline: on one line, with a capital letter and underlined.",
  "effects": "none",
  "args": [
    {
      "name": "text",
      "description": "the text of the headline",
      "type": "text",
      "backing_type": "string",
      "arity": "single",
      "mode": "stdin"
    },
    {
      "name": "underline",
      "description": "the character to underline it with",
      "type": "character",
      "backing_type": "string",
      "arity": "optional",
      "mode": "dashdashequal",
      "enum": ["-", "=", "~"],
      "default": "-"
    }
  ]
}
JSON
}

run() {
	line='-'
	for arg in "$@"; do
		case $arg in
		--underline=[-=~]) line=${arg#--underline=} ;;
		*)
			printf 'headline: unknown argument: %s\n' "$arg" >&2
			exit 2
			;;
		esac
	done
	awk -v line="$line" '
		{ $1 = $1 }
		$0 != "" { text = text (text == "" ? "" : " ") $0 }
		END {
			text = toupper(substr(text, 1, 1)) substr(text, 2)
			under = text
			gsub(/./, line, under)
			print text
			print under
		}
	'
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*)
	printf 'usage: headline.sh describe | run [--underline=CHARACTER] <TEXT\n' >&2
	exit 2
	;;
esac
