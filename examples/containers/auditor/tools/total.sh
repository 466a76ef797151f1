#!/bin/sh
# total: the sum of a month of the ledger, which is the working directory.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "total",
  "description": "Adds up what was spent in a month.",
  "effects": "none",
  "args": [
    {
      "name": "month",
      "description": "the month, such as 2026-03",
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
	printf 'total: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	case ${1-} in
	--month=[0-9][0-9][0-9][0-9]-[0-9][0-9]) month=${1#--month=} ;;
	*) fail 'want --month=YYYY-MM' 2 ;;
	esac
	[ -f "$month.csv" ] || fail "there is no $month in the ledger"
	awk -F, -v month="$month" '
		{ sum += $2; if ($2 > most) { most = $2; what = $1 } }
		END { printf "%s: %d entries, %.2f in total, most of it for %s (%.2f)\n", month, NR, sum, what, most }
	' "$month.csv"
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: total.sh describe | run --month=YYYY-MM' 2 ;;
esac
