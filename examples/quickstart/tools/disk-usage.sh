#!/bin/sh
# disk_usage: how much space a file or folder takes.
set -eu

describe() {
	cat <<'JSON'
{
  "slug": "disk_usage",
  "description": "Measures the disk space that a file, or a folder with all that is in it, takes. The result is JSON: {\"kib\": 12} is 12 KiB.",
  "effects": "none",
  "timeout-seconds": 60,
  "args": [
    {
      "name": "path",
      "description": "the file or folder, . for the current folder",
      "type": "path",
      "backing_type": "string",
      "arity": "single",
      "mode": "dashdashspace"
    }
  ]
}
JSON
}

fail() {
	printf 'disk_usage: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -eq 2 ] && [ "$1" = --path ] || fail "want --path PATH" 2
	path=$2
	[ -e "$path" ] || fail "there is no file or folder $path"
	case $path in
	/*) ;;
	*) path=./$path ;;
	esac
	# What du may not look into, it complains about and leaves out.
	kib=$(du -skx "$path" | cut -f 1) || fail "cannot measure $path"
	[ -n "$kib" ] || fail "cannot measure $path"
	printf '{"kib": %d}\n' "$kib"
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail "usage: disk-usage.sh describe | run --path PATH" 2 ;;
esac
