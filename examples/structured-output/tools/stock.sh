#!/bin/sh
# stock: what is in the workshop's stock.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "stock",
  "description": "Lists the stock of the workshop, from stock.csv in the working directory. The result is JSON: for each article how many there are and how many there should be.",
  "effects": "none",
  "args": [
    {
      "name": "missing",
      "description": "true lists only how many of each article are missing",
      "type": "flag",
      "backing_type": "boolean",
      "arity": "optional",
      "mode": "dashdashequal",
      "default": false
    }
  ]
}
JSON
}

fail() {
	printf 'stock: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	missing=false
	for argument; do
		case $argument in
		--missing=true | --missing=false) missing=${argument#--missing=} ;;
		*) fail "unknown argument $argument" 2 ;;
		esac
	done
	[ -f stock.csv ] || fail 'there is no stock.csv in the working directory'
	awk -F, -v missing="$missing" '
		NR == 1 { next }
		NF != 3 || $1 !~ /^[a-z ]+$/ || $2 !~ /^[0-9]+$/ || $3 !~ /^[0-9]+$/ {
			print "stock: stock.csv:" NR ": want ARTICLE,HAVE,WANT" >"/dev/stderr"
			bad = 1
			exit 1
		}
		missing == "false" { add("{\"article\": \"" $1 "\", \"have\": " $2 + 0 ", \"want\": " $3 + 0 "}") }
		missing == "true" && $2 + 0 < $3 + 0 { add("{\"article\": \"" $1 "\", \"number\": " $3 - $2 "}") }
		function add(item) { list = list (list == "" ? "" : ", ") item }
		END {
			if (!bad)
				print "{\"" (missing == "true" ? "missing" : "stock") "\": [" list "]}"
		}
	' stock.csv
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: stock.sh describe | run [--missing=true]' 2 ;;
esac
