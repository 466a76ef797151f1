#!/bin/sh
# list_files: what is in a folder, one entry a line.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "list_files",
  "description": "Lists the files and folders in a folder, one a line, sorted; the names of folders end with a slash. Hidden ones are left out.",
  "effects": "none",
  "args": [
    {
      "name": "folder",
      "description": "the folder to list, . for the current one",
      "type": "folder-path",
      "backing_type": "string",
      "arity": "single",
      "mode": "positional"
    },
    {
      "name": "pattern",
      "description": "list only names that match this shell pattern, such as *.md",
      "type": "glob",
      "backing_type": "string",
      "arity": "optional",
      "mode": "dashdashequal"
    }
  ]
}
JSON
}

fail() {
	printf 'list_files: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	[ $# -ge 1 ] || fail "the folder is missing" 2
	folder=$1
	shift
	pattern='*'
	for arg in "$@"; do
		case $arg in
		--pattern=*) pattern=${arg#--pattern=} ;;
		*) fail "unknown argument: $arg" 2 ;;
		esac
	done
	[ -d "$folder" ] || fail "there is no folder $folder"
	# cd takes "-" and names in CDPATH for something else.
	case $folder in
	/*) ;;
	*) folder=./$folder ;;
	esac
	cd "$folder" || fail "cannot enter $folder"
	for name in *; do
		[ -e "$name" ] || [ -L "$name" ] || continue
		case $name in
		$pattern) ;; # without quotes: it is a pattern
		*) continue ;;
		esac
		if [ -d "$name" ]; then
			name=$name/
		fi
		printf '%s\n' "$name"
	done
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail "usage: list-files.sh describe | run FOLDER [--pattern=GLOB]" 2 ;;
esac
