# What the tools have in common. A tool sets description, defines run, and reads
# this file, which calls run. Four more variables are for describe:
#
#   args    its arguments, as JSON objects with commas between them
#   schema  the JSON Schema of its arguments, in place of args
#   media   its output-media-type, if the result is not text
#   task    required, if clients can call it only as a task
#
# and asks=yes is for a tool that asks the client. Such a tool prints a result of
# the protocol. When the client has answered it is called again, with the answers
# in responses, an object as JSON, and its own state in state. What the caller
# wants to be asked is in question.

# result TEXT: a result of the protocol.
result() { jq -nc --arg text "$1" '{content: [{type: "text", text: $text}]}'; }

# answer FILTER: the part of the answers that a jq filter names, or nothing.
answer() { printf '%s' "${responses:-null}" | jq -r "try ($1) catch empty | values"; }

if [ "${asks-}" = yes ]; then
	media=application/vnd.mcp.result+json
	args="${args:+$args, }"'
    {"name": "inputResponses", "description": "what the client answered", "type": "answers", "backing_type": "object", "arity": "optional", "mode": "stdin"},
    {"name": "requestState", "description": "what the tool wants to remember", "type": "text", "backing_type": "string", "arity": "optional", "mode": "dashdashequal"}'
fi

case ${1-} in
describe)
	printf '{"slug": "%s", "description": "%s", "effects": "none", "args": [%s]%s%s%s}\n' \
		"${0##*/}" "$description" "${args-}" "${schema:+, \"input-schema\": $schema}" "${media:+, \"output-media-type\": \"$media\"}" "${task:+, \"task\": \"$task\"}"
	;;
run)
	shift
	question='' state=''
	for argument; do
		case $argument in
		--requestState=*) state=${argument#*=} ;;
		--*=*) question=${argument#*=} ;;
		esac
	done
	responses=$([ "${asks-}" != yes ] || cat)
	run
	;;
*)
	echo "usage: ${0##*/} describe | run --NAME=VALUE…" >&2
	exit 2
	;;
esac
