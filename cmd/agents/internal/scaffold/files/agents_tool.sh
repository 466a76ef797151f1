# Makes a tool of agents from a shell script. It works in dash, bash, busybox sh and other
# shells of POSIX; copy it beside the tool.
#
#	#!/bin/sh
#	set -eu
#	. "$(dirname "$0")/agents_tool.sh"
#
#	tool commits 'Shows the newest commits.' none
#	arg count:int=10 'how many'
#	arg author:str? 'only those of this author' allow_dash
#	start "$@"
#
#	exec git log --oneline -n "$count" ${author+"--author=$author"}
#
# tool SLUG DESCRIPTION [EFFECTS]	EFFECTS are none, idempotent or once, the default.
# arg NAME:TYPE[=DEFAULT|?] DESCRIPTION [PLACE]
#	TYPE is str, path, int, num, bool, words such as short|full, or stdin, a text of any
#	length. An argument with ? may be left out, and its variable is then not set. A value
#	that begins with a dash is refused, unless PLACE is
#	allow_dash	where it cannot be an option: inside a word, or after --
#	segment		in the path of a URL: the variable has the value percent-encoded
#	query		behind the ? of a URL: the same, and it may be empty or dots
# field NAME JSON	Adds a field to the description: field timeout-seconds 60
# start "$@"		Answers describe. For run it sets a variable for each argument.
# fail MESSAGE [CODE]	Says on stderr what went wrong, where the model reads it, and exits.
#
# Values are never evaluated. Names that begin with _ belong to this file.

_slug=${0##*/} _names='' _required='' _given='' _stdin='' _args='' _fields=''
_newline='
' _tab='	' _letters=abcdefghijklmnopqrstuvwxyz0123456789_ # ranges depend on the locale

fail() {
	printf '%s: %s\n' "$_slug" "$1" >&2
	exit "${2:-1}"
}

tool() {
	_slug=$1
	_quote "$2"
	_about=$_quoted _effects=${3:-once}
}

field() { _fields="$_fields,$_newline  \"$1\": $2"; }

arg() {
	_name=${1%%:*} _type=${1#*:} _arity=optional _default=''
	case $_name in
	'' | "$1" | [_0123456789]* | *[!$_letters]*) fail "arg $1: want NAME:TYPE, the name in lower case" 2 ;;
	esac
	case $_type in
	*=*) _default=${_type#*=} _type=${_type%%=*} _arity=default ;;
	*\?) _type=${_type%\?} ;;
	*) _arity=single _required="$_required $_name" ;;
	esac
	unset "$_name" # of the environment
	_names="$_names $_name"
	eval "_type_$_name=\$_type _place_$_name=\${3-}"
	_mode=dashdashequal _more=''
	case $_type in
	stdin) _kind=string _mode=stdin _stdin=$_name ;;
	int) _kind=integer ;;
	num) _kind=number ;;
	bool) _kind=boolean ;;
	path) _kind=string _more=', "type": "file-path"' ;;
	str) _kind=string ;;
	*\|*)
		_kind=string
		_quote "$_type"
		_swap '|' '", "'
		_more=", \"enum\": [$_quoted]"
		;;
	*) fail "arg $1: there is no type $_type" 2 ;;
	esac
	case ${3-}:$_type in
	:str | :path | :int | :num) _mode=dashdashspace ;; # agents refuses options too
	esac
	if [ "$_arity" = default ]; then
		_quote "$_default"
		[ "$_kind" = string ] || _quoted=$_default
		_more="$_more, \"default\": $_quoted" _arity=optional
		_set "$_name" "$_default"
	fi
	_quote "$2"
	_args="$_args${_args:+,}$_newline    {\"name\": \"$_name\", \"description\": $_quoted, \"backing_type\": \"$_kind\", \"arity\": \"$_arity\", \"mode\": \"$_mode\"$_more}"
}

start() {
	case ${1-} in
	describe)
		_quote "$_slug"
		printf '{\n  "slug": %s,\n  "description": %s,\n  "effects": "%s",\n  "args": [%s]%s\n}\n' "$_quoted" "$_about" "$_effects" "$_args" "$_fields"
		exit 0
		;;
	run) shift ;;
	*) fail "usage: ${0##*/} describe | run --NAME=VALUE...; the names are:${_names:- none}" 2 ;;
	esac
	while [ $# -gt 0 ]; do
		case $1 in
		--*=*) _name=${1%%=*} _text=${1#*=} ;;
		--*)
			[ $# -gt 1 ] || fail "the value of $1 is missing" 2
			_name=$1 _text=$2
			shift
			;;
		*) _unknown "$1" ;;
		esac
		_name=${_name#--}
		case $_name in '' | *[!$_letters]*) _unknown "$1" ;; esac
		case " $_names " in *" $_name "*) ;; *) _unknown "$1" ;; esac
		case " $_given $_stdin " in *" $_name "*) fail "$_name is given twice, or on standard input" 2 ;; esac
		_given="$_given $_name"
		_set "$_name" "$_text"
		shift
	done
	if [ -n "$_stdin" ]; then
		_text=$(cat && printf x) || fail 'standard input cannot be read'
		_text=${_text%x} # which keeps the newlines before it
		if [ -n "$_text" ]; then
			_given="$_given $_stdin"
			_set "$_stdin" "${_text%"$_newline"}" # the last newline is that of agents
		fi
	fi
	for _name in $_required; do
		case " $_given " in *" $_name "*) ;; *) fail "$_name is missing" 2 ;; esac
	done
}

_unknown() { fail "unknown argument $1; the names are:${_names:- none}" 2; }

# _set checks the value $2 and gives it to the variable $1.
_set() {
	eval "_type=\$_type_$1 _place=\$_place_$1"
	_value=$2
	case $_type in
	int) _is_int "$2" || fail "$1 must be a whole number, not $2" 2 ;;
	num) _is_num "$2" || fail "$1 must be a number, not $2" 2 ;;
	bool) [ "$2" = true ] || [ "$2" = false ] || fail "$1 must be true or false, not $2" 2 ;;
	*\|*) _is_one_of "$_type" "$2" || fail "$1 must be one of $_type, not $2" 2 ;;
	esac
	case $_place:$_type:$2 in
	:stdin:* | :*\|*:*) ;;
	:path:-*) fail "$1 begins with a dash and could be read as an option: $2; write ./$2" 2 ;;
	:*:-*) fail "$1 begins with a dash and could be read as an option: $2" 2 ;;
	segment:* | query:*) _encode "$1" ;;
	esac
	eval "$1=\$_value"
}

_is_one_of() {
	case $2 in *\|*) return 1 ;; esac
	case "|$1|" in *"|$2|"*) ;; *) return 1 ;; esac
}

_is_digits() {
	case $1 in '' | *[!0123456789]*) return 1 ;; esac
}

_is_int() {
	_is_digits "${1#-}" || return 1
	case ${1#-} in 0?*) return 1 ;; esac
}

_is_num() {
	_rest=${1%%[eE]*}
	case $1 in *[eE]*)
		_power=${1#*[eE]}
		_is_digits "${_power#[+-]}" || return 1
		;;
	esac
	case $_rest in *.*) _is_digits "${_rest#*.}" || return 1 ;; esac
	_is_int "${_rest%%.*}"
}

# _encode percent-encodes _value for a URL.
_encode() {
	case $_place:$_value in
	segment: | segment:. | segment:..) fail "$1 must not be empty, . or .." 2 ;;
	*:*[!$_letters.-]*) ;;
	*) return 0 ;;
	esac
	_value=$(printf %s "$_value" | od -An -v -tu1 | awk '{
		for (i = 1; i <= NF; i++)
			printf($i == 45 || $i == 46 || $i >= 48 && $i <= 57 || $i >= 65 && $i <= 90 || $i == 95 || $i >= 97 && $i <= 122 || $i == 126 ? "%c" : "%%%02X", $i + 0)
	}')
	[ -n "$_value" ] || fail 'a URL needs od and awk, which do not work here'
}

# _quote sets _quoted to the text $1 as a string of JSON.
_quote() {
	_quoted=$1
	_swap '\' '\\'
	_swap '"' '\"'
	_swap "$_newline" '\n'
	_swap "$_tab" '\t'
	case $_quoted in *[[:cntrl:]]*) fail "a control character is in a text of the description" 2 ;; esac
	_quoted="\"$_quoted\""
}

# _swap replaces each $1 in _quoted by $2.
_swap() {
	_rest=$_quoted
	_quoted=''
	while :; do
		case $_rest in *"$1"*) ;; *) break ;; esac
		_quoted=$_quoted${_rest%%"$1"*}$2
		_rest=${_rest#*"$1"}
	done
	_quoted=$_quoted$_rest
}
