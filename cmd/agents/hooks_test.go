package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// hookFiles are an agent with hooks at moment, which do what the lines say when leaf is asked
// about, and leaf, which is the given number of processes below it. leaf answers with the
// result of a call and its prompt.
func hookFiles(dir, moment, lines string, borders int) map[string]string {
	file := func(slug, script, more string) string {
		return fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"announce":"a","flavor":"scripted","script":%q%s}}`, slug, script, more)
	}
	own, _ := json.Marshal(ownProcess)
	below := func(slug string, border bool) string {
		if !border {
			return fmt.Sprintf(`,"extraAgents":[{"slug":%q,"path":"%s/%s.json"}]`, slug, dir, slug)
		}
		return fmt.Sprintf(`,"extraAgents":[{"slug":%q,"path":"%s/%s.json","runner":%s}]`, slug, dir, slug, own)
	}
	pass := func(tool string) string {
		return fmt.Sprintf(`{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_%s","args":{"prompt":"${prompt}"}}]}},{"answer":{"text":"${lastMessage}"}}]}`, tool)
	}
	hook := fmt.Sprintf(`#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"h","description":"d","timeout-seconds":TIMEOUT,"args":[{"name":"event","description":"d","backing_type":"object","mode":"stdin"}]}'; exit 0; }
event=$(cat)
printf '%%s\n' "$event" >>"${0%%/*}/log"
case $event in *'"agent":"leaf"'*) %s ;; *) echo '{}' ;; esac
`, lines)
	limit := "60"
	if strings.Contains(lines, "sleep") {
		limit = "1"
	}
	return map[string]string{
		"root.json": file("root", "root-script.json", fmt.Sprintf(`,"hooks":{%q:["hook"]},"permissions":[{"verdict":"deny","tool":"echo","args":{"/text":{"regexp":"forbidden"}}}]%s`,
			moment, below(map[bool]string{true: "mid", false: "leaf"}[borders > 1], borders > 0))),
		"root-script.json": pass(map[bool]string{true: "mid", false: "leaf"}[borders > 1]),
		"mid.json":         file("mid", "mid-script.json", below("leaf", true)),
		"mid-script.json":  pass("leaf"),
		"leaf.json":        file("leaf", "leaf-script.json", `,"toolDirectory":"tools"`),
		"leaf-script.json": `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"bash_echo","args":{"text":"one <&>"}},{"tool":"bash_echo","args":{"text":"one <&>"}}]}},{"answer":{"text":"${lastMessage} ; ${prompt}"}}]}`,
		"hook":             strings.ReplaceAll(hook, "TIMEOUT", limit),
		"tools/echo": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"echo","description":"d","args":[{"name":"text","description":"d","mode":"stdin"}]}'; exit 0; }
echo "got $(cat)"
`,
	}
}

// TestHooksHoldInEveryProcess runs hooks that permit, deny, replace, fail and hang, with the
// agent that is asked about in the same process, in one below, and in one below that.
func TestHooksHoldInEveryProcess(t *testing.T) {
	t.Parallel()
	const unchanged = "got one <&> ; go"
	for _, tt := range []struct {
		moment, lines string
		want          string // part of the answer
		original      string // what the hook event has of what was replaced, or was added
		warning       string
	}{
		{"before_call", `echo '{}'`, unchanged, "", ""},
		{"before_call", `echo '{"deny":"not now"}'`, "error: not run: refused by policy: not now (hook ", "", ""},
		{"before_call", `echo '{"args":{"text":"two <&>"}}'`, "got two <&> ; go", `{"text":"one <&>"}`, ""},
		{"before_call", `echo '{"args":{"text":5}}'`, "its new arguments do not fit", `{"text":"one <&>"}`, ""},
		{"before_call", `echo '{"args":{"text":"forbidden"}}'`, "error: not run: refused by policy: denied (", `{"text":"one <&>"}`, ""},
		{"before_call", `exit 3`, "error: not run: refused by policy: hook ", "", "exit status 3"},
		{"before_call", `sleep 100`, "error: not run: refused by policy: hook ", "", "timed out"},
		{"before_call", `true`, "error: not run: refused by policy: hook ", "", "its output is not an answer"},
		{"before_call", `echo '{"deny":"a"}{}'`, "error: not run: refused by policy: hook ", "", "its output is not an answer"},
		{"before_call", `echo '{"result":"a"}'`, "error: not run: refused by policy: hook ", "", "has no meaning at before_call"},
		{"after_call", `echo '{}'`, unchanged, "", ""},
		{"after_call", `echo '{"result":"masked <&>"}'`, "masked <&> ; go", "got one <&>", ""},
		{"after_call", `exit 3`, unchanged, "", "exit status 3"},
		{"after_call", `sleep 100`, unchanged, "", "timed out"},
		{"after_call", `echo '{"deny":"a"}'`, unchanged, "", "has no meaning at after_call"},
		{"before_prompt", `echo '{"context":"it is night"}'`, "got one <&> ; go\n\n[added by hook ", "it is night", ""},
		{"before_prompt", `echo '{"deny":"not now"}'`, " did not answer: refused by policy: not now (hook ", "", ""},
		{"before_prompt", `exit 3`, " did not answer: refused by policy: hook ", "", "exit status 3"},
		{"before_prompt", `sleep 100`, " did not answer: refused by policy: hook ", "", "timed out"},
		{"session_start", `echo '{"context":"it is night"}'`, "got one <&> ; go\n\n[added by hook ", "it is night", ""},
		{"session_start", `exit 3`, unchanged, "", "exit status 3"},
		{"end", `echo '{}'`, unchanged, "", ""},
		{"end", `exit 3`, unchanged, "", "exit status 3"},
	} {
		for _, borders := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s %s over %d borders", tt.moment, tt.lines, borders), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "work")
				writeFiles(t, dir, hookFiles(dir, tt.moment, tt.lines, borders))
				cmd := agentsCommand(t, nil, "run", "--agent-file", "root.json", "--prompt", "go", "--output", "jsonl", "--yes")
				if err := os.Symlink(cmd.Path, filepath.Join(dir, "agents")); err != nil {
					t.Fatal(err)
				}
				cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, stderrOf(err))
				}
				var answer, original string
				warnings := map[string]int{}
				for line := range strings.Lines(string(out)) {
					var e agent.Event
					if err := json.Unmarshal([]byte(line), &e); err != nil {
						t.Fatal(err)
					}
					switch {
					case e.Kind == agent.EventEnd && e.Depth == 0:
						answer = e.Text
					case e.Kind == agent.EventWarning:
						warnings[e.Text]++
					case e.Kind == agent.EventHook && e.Agent == "leaf" && e.Error == "":
						if original = e.Args + e.Text; e.Result != nil {
							original = strings.TrimSpace(e.Result.Text())
						}
						if e.What != tt.moment || !strings.HasPrefix(e.Rule, "hook ") {
							t.Errorf("the event of the hook is %+v", e)
						}
					}
				}
				if !strings.Contains(answer, tt.want) || original != tt.original {
					t.Errorf("the answer is %q, want %q; the journal has the original %q, want %q", answer, tt.want, original, tt.original)
				}
				if n := len(warnings); tt.warning == "" && n > 0 || tt.warning != "" && n != 1 {
					t.Errorf("the warnings are %v", warnings)
				}
				for text, n := range warnings {
					if n != 1 || !strings.Contains(text, tt.warning) {
						t.Errorf("the warning %q came %d times, want %q once", text, n, tt.warning)
					}
				}
				log, err := os.ReadFile(filepath.Join(dir, "log"))
				path := `"path":` + map[int]string{0: `["root","leaf"]`, 2: `["root","mid","leaf"]`}[borders]
				if err != nil || !strings.Contains(string(log), path) || strings.Contains(tt.moment, "call") && !strings.Contains(string(log), `"args":{"text":"one <&>"}`) {
					t.Errorf("the hook was told %s, %v", log, err)
				}
			})
		}
	}
}
