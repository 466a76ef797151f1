#!/bin/sh
# Has the coding agent below do a task, with a model that the agent lends: see docs/lend.md.
# With the argument acp, it is an agent of the Agent Client Protocol, if it can be one.
agent=@AGENT@

# command and package: the program, and what has it. tested: the versions that tests run with.
# event, name and input: what is in a line of its output that is about a call, what its name
# follows there, and its arguments. answer and text: the same for its answer.
event= answer= gap=
case $agent in
codex)
	title=Codex command=codex package='npm install -g @openai/codex' tested='0.169.*'
	event='{"type":"item.started"' name='"type":"' input=,
	answer='"type":"agent_message"' text='"text":"'
	start() {
		export CODEX_HOME="$home/.codex"
		mkdir "$CODEX_HOME" && cat >"$CODEX_HOME/config.toml" <<END || return
model = "$model"
model_provider = "lent"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
[model_providers.lent]
name = "lent"
base_url = "$OPENAI_BASE_URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[features]
multi_agent = false
[analytics]
enabled = false
[history]
persistence = "none"
END
		codex exec --json --skip-git-repo-check -
	}
	;;
claude-code)
	title='Claude Code' command=claude package='npm install -g @anthropic-ai/claude-code' tested='2.1.*'
	event='"type":"tool_use"' name='"name":"' input='"input":'
	answer='{"type":"result"' text='"result":"'
	start() {
		export CLAUDE_CONFIG_DIR="$home/.claude" CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1
		export ANTHROPIC_MODEL="$model" ANTHROPIC_SMALL_FAST_MODEL="$model" ANTHROPIC_DEFAULT_HAIKU_MODEL="$model"
		export ANTHROPIC_DEFAULT_SONNET_MODEL="$model" ANTHROPIC_DEFAULT_OPUS_MODEL="$model"
		unset ANTHROPIC_API_KEY # ANTHROPIC_AUTH_TOKEN is enough
		claude -p --dangerously-skip-permissions --output-format stream-json --verbose
	}
	;;
opencode)
	title=OpenCode command=opencode package='npm install -g opencode-ai' tested='1.18.*'
	event='{"type":"tool_use"' name='"tool":"' input='"input":'
	answer='{"type":"text"' text='"type":"text","text":"' gap='
'
	start() {
		export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1
		permission=allow
		[ -z "$acp" ] || permission=ask
		mkdir -p "$home/.config/opencode" && cat >"$home/.config/opencode/opencode.json" <<END || return
{"autoupdate": false, "share": "disabled", "snapshot": false, "permission": "$permission",
  "model": "lent/$model", "small_model": "lent/$model", "enabled_providers": ["lent"],
  "provider": {"lent": {"npm": "@ai-sdk/openai-compatible", "name": "lent",
    "options": {"baseURL": "$OPENAI_BASE_URL", "apiKey": "{env:OPENAI_API_KEY}"},
    "models": {"$model": {"name": "$model", "tool_call": true, "limit": {"context": 128000, "output": 8192}}}}}}
END
		if [ -n "$acp" ]; then
			opencode acp
			return
		fi
		opencode run --auto --format json -m "lent/$model"
	}
	;;
pi)
	title=pi command=pi package='npm install -g @mariozechner/pi-coding-agent' tested='0.73.*'
	event='{"type":"tool_execution_start"' name='"toolName":"' input='"args":'
	answer='{"type":"message_end","message":{"role":"assistant"' text='"type":"text","text":"'
	start() {
		export PI_OFFLINE=1 PI_TELEMETRY=0
		mkdir -p "$home/.pi/agent" && cat >"$home/.pi/agent/models.json" <<END || return
{"providers": {"lent": {"baseUrl": "$OPENAI_BASE_URL", "api": "openai-completions", "apiKey": "OPENAI_API_KEY", "models": [{"id": "$model"}]}}}
END
		pi --provider lent --model "$model" --no-session --mode json -p
	}
	;;
gemini)
	title='Gemini CLI' command=gemini package='npm install -g @google/gemini-cli' tested='0.61.*'
	event='{"type":"tool_use"' name='"tool_name":"' input='"parameters":'
	answer='"role":"assistant"' text='"content":"'
	start() {
		export GEMINI_API_KEY="$OPENAI_API_KEY" GOOGLE_GEMINI_BASE_URL="$ANTHROPIC_BASE_URL"
		export GEMINI_TELEMETRY_ENABLED=false GEMINI_CLI_TRUST_WORKSPACE=true GEMINI_CLI_NO_RELAUNCH=true
		mkdir "$home/.gemini" && cat >"$home/.gemini/settings.json" <<END || return
{"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}, "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false}, "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "tools": {"shell": {"enableInteractiveShell": false}}}
END
		if [ -n "$acp" ]; then
			gemini --acp -m "$model"
			return
		fi
		gemini --yolo -m "$model" -o stream-json
	}
	;;
crush)
	title=Crush command=crush package='npm install -g @charmland/crush' tested='0.90.*'
	start() {
		export CRUSH_DISABLE_METRICS=1 DO_NOT_TRACK=1 CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1
		mkdir -p "$home/.config/crush" && cat >"$home/.config/crush/crush.json" <<END || return
{"options": {"data_directory": "$home/data", "disable_metrics": true, "disable_provider_auto_update": true, "disable_default_providers": true},
  "providers": {"lent": {"type": "openai-compat", "base_url": "$OPENAI_BASE_URL", "api_key": "\$OPENAI_API_KEY",
    "models": [{"id": "$model", "name": "$model", "context_window": 128000, "default_max_tokens": 8192}]}},
  "models": {"large": {"provider": "lent", "model": "$model"}, "small": {"provider": "lent", "model": "$model"}}}
END
		crush run --quiet
	}
	;;
goose)
	title=goose command=goose package='see https://block.github.io/goose' tested='1.*'
	event='"type":"toolRequest"' name='"name":"' input='"arguments":'
	answer='"role":"assistant"' text='"type":"text","text":"'
	start() {
		export GOOSE_PROVIDER=openai GOOSE_MODEL="$model" GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1 GOOSE_TELEMETRY_ENABLED=false
		export OPENAI_HOST="$ANTHROPIC_BASE_URL" OPENAI_BASE_PATH=v1/chat/completions
		goose run --no-session --with-builtin developer --output-format stream-json -i -
	}
	;;
esac

present() {
	command -v "$command" >/dev/null || {
		echo "the program $command is missing: $package"
		return 1
	}
}
# check says which versions are tested, where the program has another one.
check() {
	version=$("$command" --version 2>&1 </dev/null | sed -n 's/^[^0-9]*\([0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)
	case $version in
	$tested) ;;
	*) echo "$command has the version ${version:-?}; the versions that are tested: $tested" ;;
	esac
}

case ${1-} in
describe)
	printf '%s\n' '{
  "slug": "'"$(echo $agent | tr - _)"'",
  "description": "Gives a task to the coding agent '"$title"', which works on the files of the working directory and answers what it did.",
  "args": [
    {"name": "task", "description": "The whole task: it knows nothing else.",
      "type": "text", "backing_type": "string", "arity": "single", "mode": "stdin"}
  ],
  "models": true,
  "timeout-seconds": 3600
}'
	exit
	;;
check)
	HOME=$PWD # some write there before they say it
	present && check
	exit
	;;
esac
model=${AGENTS_MODELS:?the agent lends no model to this tool}
model=${model%%,*}
home=$(mktemp -d) || exit
trap 'rm -rf "$home"' EXIT
trap 'exit 143' HUP INT TERM
export HOME="$home"
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME
present >&2 || exit
acp=
[ "${1-}" != acp ] || acp=1 event=
check >&2 & # beside the program, because some take seconds to say their version
if [ -z "$event" ]; then
	start
	status=$?
	wait
	exit $status
fi
interactive= # or mawk reads its whole input first
case $(awk -W version 2>&1 </dev/null) in mawk*) interactive='-W interactive' ;; esac
{
	start
	echo $? >"$home/status"
	wait
	echo end # a process that it left may hold the pipe
} | LC_ALL=C awk $interactive -v event="$event" -v name="$name" -v input="$input" -v answer="$answer" -v text="$text" -v gap="$gap" '
function after(s, mark) { return (i = index(s, mark)) ? substr(s, i + length(mark)) : "" }
function code(s, k, n) {
	for (k = 1; k <= 4; k++) n = n * 16 + index("123456789abcdef", tolower(substr(s, k, 1)))
	return n
}
function utf8(n) {
	if (n < 128) return n ? sprintf("%c", n) : ""
	if (n < 2048) return sprintf("%c%c", 192 + int(n / 64), 128 + n % 64)
	if (n < 65536) return sprintf("%c%c%c", 224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
	return sprintf("%c%c%c%c", 240 + int(n / 262144), 128 + int(n / 4096) % 64, 128 + int(n / 64) % 64, 128 + n % 64)
}
# string returns the JSON string whose opening quote is before s; rest is what follows it.
function string(s, out, c, n) {
	while (match(s, /["\\]/)) {
		out = out substr(s, 1, RSTART - 1)
		c = substr(s, RSTART, 1)
		s = substr(s, RSTART + 1)
		if (c == "\"") break
		c = substr(s, 1, 1)
		s = substr(s, 2)
		if (c == "u") {
			n = code(s)
			s = substr(s, 5)
			if (n >= 55296 && n < 56320 && substr(s, 1, 2) == "\\u") {
				n = 65536 + (n - 55296) * 1024 + code(substr(s, 3)) - 56320
				s = substr(s, 7)
			}
			c = utf8(n)
		} else if (c in escapes) c = escapes[c]
		out = out c
	}
	rest = s
	return out
}
function say(s) {
	gsub(/[[:space:]]+/, " ", s)
	print substr(s, 1, 300) | "cat >&2"
	close("cat >&2")
}
BEGIN { escapes["n"] = "\n"; escapes["t"] = "\t"; escapes["r"] = "\r"; escapes["b"] = escapes["f"] = " " }
$0 == "end" { exit }
index($0, answer) {
	for (s = after($0, text); s != ""; s = after(rest, text)) said = said (said == "" ? "" : gap) string(s)
}
index($0, event) {
	if ((called = string(after(after($0, event), name))) == "") called = string(after($0, name))
	if (called == "reasoning" || called == "agent_message") next
	said = ""
	if ((s = after(rest, input)) == "") s = after($0, input)
	say(called ": " string(after(s, ":\"")))
}
/^\{"type":"(error|turn\.failed)"/ { say(string(after($0, "\"message\":\""))) }
END {
	if (said == "") {
		say("there is no answer in what it printed")
		exit 1
	}
	printf "%s\n", said
}'
answered=$?
read -r status <"$home/status" && [ "$status" != 0 ] || status=$answered
exit "$status"
