#!/bin/sh
# list_files: what is in a folder, one entry a line.
set -eu
LC_ALL=C
export LC_ALL

describe() {
	cat <<'JSON'
{
  "slug": "list_files",
  "description": "Lists the files and folders in a folder, one a line, sorted; the names of folders end with a slash.",
  "effects": "none",
  "empty-result": {"tag": "AddMessage", "contents": "(the folder is empty)"},
  "args": [
    {
      "name": "folder",
      "description": "the folder to list; without it the current one",
      "type": "folder-path",
      "backing_type": "string",
      "arity": "optional",
      "mode": "dashdashequal"
    }
  ]
}
JSON
}

# What goes wrong is said on stderr; the model sees it with the exit code.
fail() {
	printf 'list_files: %s\n' "$1" >&2
	exit "${2:-1}"
}

run() {
	folder=.
	for argument; do
		case $argument in
		--folder=*) folder=${argument#--folder=} ;;
		*) fail "unknown argument $argument" 2 ;;
		esac
	done
	[ -d "$folder" ] || fail "there is no folder $folder"
	case $folder in
	/*) ;;
	*) folder=./$folder ;; # it may begin with a dash
	esac
	env LC_ALL=C.UTF-8 ls -1Apq "$folder" # q: a newline in a name is shown as ?
}

case ${1:-} in
describe) describe ;;
run)
	shift
	run "$@"
	;;
*) fail 'usage: list-files.sh describe | run [--folder=FOLDER]' 2 ;;
esac
