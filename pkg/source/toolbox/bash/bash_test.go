package bash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
)

// options are those of the tests.
func options(t *testing.T, more Options) Options {
	t.Helper()
	more.Environ = append(os.Environ(), more.Environ...)
	if more.Dir == "" {
		more.Dir = t.TempDir()
	}
	more.SpoolDir, more.Grace = t.TempDir(), 100*time.Millisecond
	return more
}

// call runs one command outside a conversation.
func call(t *testing.T, o Options, command string) (string, error) {
	t.Helper()
	args, _ := json.Marshal(map[string]any{"command": command})
	tools, _ := Open(options(t, o)).Tools(t.Context())
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a"}}
	result, err := r.Call(t.Context(), tools[0], string(args))
	return result.Text(), err
}

func TestToolset(t *testing.T) {
	agenttest.Toolset(t, Open(Options{BackgroundAfter: time.Second}))
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, command, text, err string
		options                  Options
	}{
		{"both streams in their order", "echo one; echo two >&2; echo three", "one\ntwo\nthree\n", "", Options{}},
		{"several lines and quotes", "a='x y'\ncat <<'END'\n$a \"q\"\nEND\necho \"$a\"", "$a \"q\"\nx y\n", "", Options{}},
		{"nothing printed", "true", "The commands printed nothing and succeeded.", "", Options{}},
		{"a failure", "echo why >&2; exit 3", "\nwhy\n", "exit status 3", Options{}},
		{"a failure without a word", "exit 4", "", "exit status 4; it printed nothing", Options{}},
		{"standard input is empty", "cat; echo end", "end\n", "", Options{}},
		{"the folder", "pwd", dir + "\n", "", Options{Dir: dir}},
		{"the time limit", "echo begun; sleep 100 & sleep 100", "\nbegun\n", "timed out after 0.3 s (timeoutSeconds)", Options{Timeout: 300 * time.Millisecond}},
		{"a key of another", `echo "[$OPENAI_API_KEY][$GITHUB_TOKEN]"`, "[][x]\n", "", Options{Environ: []string{"OPENAI_API_KEY=sk", "GITHUB_TOKEN=x"}, Env: []string{"GITHUB_TOKEN"}}},
		{"a secret that it prints", `echo "a secret: $WORD"`, "a secret: " + redact.Mark + "\n", "", Options{Environ: []string{"WORD=hunter22hunter22"}, Redact: redact.New([]string{"hunter22hunter22"})}},
		{"a syntax error", "echo (", "", "exit status 2", Options{}},
		{"a NUL byte", "echo \x00", "", "nothing ran: the command holds a NUL byte", Options{}},
		{"a long command", "true " + strings.Repeat("x", 140_000), "", "nothing ran: the command is 140005 bytes long and can be 131071", Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := call(t, test.options, test.command)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error = %v, want %q", err, test.err)
			}
			if text != test.text && test.name != "a syntax error" {
				t.Errorf("text = %q, want %q", text, test.text)
			}
		})
	}
}

func TestLongOutputIsCutAndKept(t *testing.T) {
	text, err := call(t, Options{MaxOutput: 2000}, "seq 100000")
	if err != nil || len(text) > 2000 || !strings.HasPrefix(text, "1\n2\n") || !strings.HasSuffix(text, "99999\n100000\n") {
		t.Fatalf("%d bytes, %v: %.200q", len(text), err, text)
	}
	file := regexp.MustCompile(`the whole is in the file (.+)\]`).FindStringSubmatch(text)
	if data, err := os.ReadFile(file[1]); err != nil || bytes.Count(data, []byte("\n")) != 100_000 {
		t.Errorf("the file has %d bytes, %v", len(data), err)
	}
}

func TestEnvironmentOfACall(t *testing.T) {
	o := options(t, Options{Environ: []string{"AGENTS_CALL_ID=outer", "AGENTS_TREE=/outer"}})
	set := Open(o)
	set.Protect([]string{"/tree/agent.json"})
	tools, _ := set.Tools(t.Context())
	inv := &agent.Invocation{Call: agent.ToolCall{Args: `{"command":"env"}`}, Key: "s.1.1", Session: "s", Agent: "a", AgentSource: "/tree/agent.json", Turn: 1, N: 1, Level: 2, Trace: "00-x"}
	ctx, cancel := context.WithDeadline(t.Context(), time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC))
	defer cancel()
	result, err := tools[0].Call(ctx, inv)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"AGENTS_DEPTH=3", "AGENTS_CALL_ID=s.1.1", "AGENTS_SESSION_ID=s", "AGENTS_AGENT=a", "AGENTS_FILE=/tree/agent.json", "TRACEPARENT=00-x",
		"AGENTS_DEADLINE=2999-01-02T03:04:05Z", "AGENTS_TREE=/outer\n/tree/agent.json"} {
		if !strings.Contains("\n"+result.Text(), "\n"+want+"\n") {
			t.Errorf("no %s in the environment:\n%s", want, result.Text())
		}
	}
}

// A script is a model that makes one call after the other. Each is a function of what the
// model has read.
type script struct {
	t     *testing.T
	steps []func(conversation string) (tool, args string)
	seen  []agent.Message
}

func (s *script) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	s.seen = req.Messages
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if len(s.steps) > 0 {
		name, args := s.steps[0](conversation(req.Messages))
		s.steps = s.steps[1:]
		m.Calls = []agent.ToolCall{{ID: fmt.Sprint(req.Turn), Name: name, Args: args}}
	}
	return &agent.Response{Message: m}, nil
}

// conversation are the texts of a conversation, each in its line.
func conversation(messages []agent.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Text() + "\n")
		for _, r := range m.Results {
			b.WriteString(r.Text() + "\n")
		}
	}
	return b.String()
}

// say makes a call whatever the model has read.
func say(tool, args string) func(string) (string, string) {
	return func(string) (string, string) { return tool, args }
}

// converse runs a conversation and returns its texts and its events.
func converse(t *testing.T, o Options, steps ...func(string) (string, string)) (string, []agent.Event) {
	t.Helper()
	model := &script{t: t, steps: steps}
	var events []agent.Event
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: model, Toolsets: []agent.Toolset{Open(options(t, o))}},
		Observe: func(e agent.Event) { events = append(events, e) }}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	return conversation(model.seen), events
}

const soon = 50 * time.Millisecond

func TestACommandContinuesInTheBackgroundAndItsEndIsAMessage(t *testing.T) {
	dir := t.TempDir()
	release := fmt.Sprintf("touch %s/go", dir)
	text, events := converse(t, Options{BackgroundAfter: soon},
		say("bash", fmt.Sprintf(`{"command":"echo first; until [ -e %s/go ]; do sleep 0.01; done; echo last; exit 3"}`, dir)),
		say("bash_list", `{}`),
		say("bash_read", `{"id":"1.1"}`),
		say("bash", `{"command":"`+release+`","wait_seconds":60}`),
		say("bash_list", `{"wait_seconds":60}`),
		say("bash_read", `{"id":"1.1"}`))
	for _, want := range []string{
		`first\n\n\[It still runs after 0.05 s and continues in the background as command 1.1. Its output is in the file (.+\.output)\. A message follows`,
		`1.1  runs for [\d.]+ s  \(.+\)  echo first; until`,
		`first\n\n\[the command runs\]`,
		`\[Command 1.1 in the background has ended \(exit status 3\) after [\d.]+ s\. Its output is in the file .+\.output, 11 bytes\.\]`,
		`\nlast\n\n\[the command has ended: exit status 3\]`,
		`1.1  ended after [\d.]+ s: exit status 3`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var rebuilt runner.Rebuilder
	inputs := 0
	for _, e := range events {
		if e.Kind == agent.EventMessage && e.Input && strings.Contains(e.Message.Text(), "[Command 1.1 ") { // the other may take so long, too
			inputs++
		}
		if e.Kind.Lasting() {
			if err := rebuilt.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	resume, _ := rebuilt.Resume()
	if again := conversation(resume.Session.Messages); inputs != 1 || again != text+"done\n" {
		t.Errorf("%d messages of the background; rebuilt:\n%s\nwant:\n%s", inputs, again, text)
	}
}

// TestALineThatARuleAllowsRunsAsItsWords: bash gets the words that were judged, not the text.
func TestALineThatARuleAllowsRunsAsItsWords(t *testing.T) {
	rule, err := policy.ParseRule([]byte(`{"verdict":"allow","tool":"bash","command":["echo"]}`), policy.Place{Source: "rule"})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]struct{ runs, result string }{
		`echo   "a  b"  'it'\''s' && echo c\;`: {`echo 'a  b' 'it'\''s' && echo 'c;'`, "a  b it's\nc;\n"},
		"echo a\necho b":                       {"echo a; echo b", "a\nb\n"},
		"echo #\\\ntouch X":                    {"", "not run: refused by policy: set allows only some calls of this tool, and not this one: it has a comment"},
		"echo <<E\nE\\\nF\ntouch X\nE":         {"", "not run: refused by policy"},
	} {
		rights, err := policy.New(policy.Set{Source: "set", Rules: []*policy.Rule{rule}})
		if err != nil {
			t.Fatal(err)
		}
		args, _ := json.Marshal(map[string]string{"command": command})
		dir, ran := t.TempDir(), ""
		model := &script{t: t, steps: []func(string) (string, string){say("bash", string(args))}}
		r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: model, Rights: rights, Toolsets: []agent.Toolset{Open(options(t, Options{Dir: dir}))}},
			Observe: func(e agent.Event) {
				var args struct{ Command string }
				if e.Kind == agent.EventCallStarted && json.Unmarshal([]byte(e.Args), &args) == nil {
					ran = args.Command
				}
			}}
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
		if text := conversation(model.seen); ran != want.runs || !strings.Contains(text, want.result) {
			t.Errorf("%q ran as %q, want %q, with %q, want %q", command, ran, want.runs, text, want.result)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%q left %v", command, left)
		}
	}
}

func TestBackgroundCommandsEnd(t *testing.T) {
	for name, call := range map[string]func(string) (string, string){
		"with the run":   say("bash_list", `{}`),
		"with bash_kill": say("bash_kill", `{"id":"1.1"}`),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			pid := 0
			begin := say("bash", fmt.Sprintf(`{"command":"sleep 1000 & echo $! >%s; wait"}`, file))
			text, _ := converse(t, Options{BackgroundAfter: soon}, begin, func(text string) (string, string) {
				for pid == 0 {
					data, _ := os.ReadFile(file)
					fmt.Sscan(string(data), &pid)
					time.Sleep(time.Millisecond)
				}
				return call(text)
			}, call)
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
				t.Errorf("the process lives: %s", stat)
			}
			if strings.Contains(text, "has ended (") || name == "with bash_kill" && strings.Count(text, "Command 1.1 has ended: killed; the tool was ended (signal: terminated).") != 2 {
				t.Errorf("the model has read\n%s", text)
			}
		})
	}
}

func TestBackgroundHasLimits(t *testing.T) {
	t.Run("time", func(t *testing.T) {
		text, _ := converse(t, Options{BackgroundAfter: soon, Timeout: 200 * time.Millisecond}, say("bash", `{"command":"sleep 1000","wait_seconds":60}`))
		if !strings.Contains(text, "has ended (timed out after 0.2 s (timeoutSeconds); the tool was ended (signal: terminated))") {
			t.Errorf("the model has read\n%s", text)
		}
	})
	t.Run("number", func(t *testing.T) {
		var steps []func(string) (string, string)
		for range MaxBackground + 1 {
			steps = append(steps, say("bash", `{"command":"sleep 1000"}`))
		}
		text, _ := converse(t, Options{BackgroundAfter: soon}, steps...)
		if strings.Count(text, "continues in the background") != MaxBackground || !strings.Contains(text, "it ran for 0.05 s, and 16 commands are in the background already, which is the limit; the tool was ended") {
			t.Errorf("the model has read\n%s", text)
		}
	})
	t.Run("unknown id", func(t *testing.T) {
		text, _ := converse(t, Options{BackgroundAfter: soon}, say("bash_read", `{"id":"7.1"}`), say("bash_list", `{"wait_seconds":60}`))
		if !strings.Contains(text, `there is no command "7.1" in the background`) || !strings.Contains(text, "There are no commands in the background.") {
			t.Errorf("the model has read\n%s", text)
		}
	})
}

func TestACommandReadsAndChangesTheContext(t *testing.T) {
	for _, after := range []time.Duration{0, time.Hour} {
		tools, err := Open(Options{Environ: os.Environ(), SpoolDir: t.TempDir(), BackgroundAfter: after}).Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := &runner.Runner{Agent: &agent.Agent{Slug: "boss"}, Context: json.RawMessage(`{"n":1}`)}
		for _, c := range []struct{ command, want string }{
			{`cat $AGENTS_CONTEXT_FILE; echo '{"n":2}' >$AGENTS_CONTEXT_FILE`, `{"n":1}`},
			{`echo '{"n":3}' >$AGENTS_CONTEXT_FILE; exit 1`, "exit status 1"},
			{`cat $AGENTS_CONTEXT_FILE; echo $AGENTS_CONTEXT_FILE`, `{"n":2}`},
		} {
			args, _ := json.Marshal(map[string]string{"command": c.command})
			result, err := r.Call(t.Context(), tools[0], string(args))
			if got := result.Text(); !strings.Contains(got+fmt.Sprint(err), c.want) {
				t.Errorf("%s = %q, %v, want %q", c.command, got, err, c.want)
			} else if _, file, ok := strings.Cut(got, "}"); ok && c.want == `{"n":2}` {
				if _, err := os.Stat(strings.TrimSpace(file)); err == nil {
					t.Errorf("%s is left", file)
				}
			}
		}
	}
}

// TestReadsCutNoCharacter: of a text that is read in two parts, at each place.
func TestReadsCutNoCharacter(t *testing.T) {
	for _, text := range []string{"aé€😀z", "plain", "\xff bytes \xe2\x82", "😀"} {
		file := filepath.Join(t.TempDir(), "out")
		for cut := range len(text) + 1 {
			c := &command{set: &Toolset{opts: Options{MaxOutput: 1000}}, file: file}
			read := func(printed string) string {
				if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
					t.Fatal(err)
				}
				r, err := c.next()
				if err != nil {
					t.Fatal(err)
				}
				said, _, _ := strings.Cut(r.Text(), "\n[the command")
				said, _, _ = strings.Cut(said, "[nothing new")
				return said
			}
			first := read(text[:cut])
			c.ended = time.Now()
			if got, want := first+read(text), strings.ToValidUTF8(text, "\uFFFD"); got != want {
				t.Errorf("cut at %d: %q, want %q", cut, got, want)
			}
		}
	}
}
