package tooltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/source/exectool"
	"github.com/agents-exe/agents/pkg/trial/treetest"
)

// script is a tool in sh: fields of its description apart from slug, and what it does.
type script struct{ fields, run string }

func (s script) open(t *testing.T) *exectool.Tool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool")
	text := "#!/bin/sh\nif [ \"$1\" = describe ]; then cat <<EOF\n{\"slug\": \"tool\", " + s.fields + "}\nEOF\nexit; fi\nshift\n" + s.run + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	set, err := exectool.Open(t.Context(), []exectool.Source{{Path: path}}, exectool.Options{Environ: os.Environ()})
	if err != nil || len(set.List()) != 1 {
		t.Fatal(err, set.Problems())
	}
	return set.List()[0]
}

const (
	about   = `"description": "d", `
	oneArg  = `"args": [{"name": "text", "description": "d", "type": "t", "backing_type": "string", "arity": "single", "mode": "MODE"}], `
	noArgs  = `"args": [], `
	looks   = `"effects": "none"`
	example = `, "examples": [{"args": {"text": "x"}, "result": "^{text}\\n$"}]`
	empty   = `, "examples": [{"args": {}}]`
)

func mode(name string) string { return about + strings.Replace(oneArg, "MODE", name, 1) }

// problems are the failures, and what was skipped, by the name of the check.
func problems(reports []treetest.Report) (failed, skipped map[string]string) {
	failed, skipped = map[string]string{}, map[string]string{}
	for _, r := range reports {
		name := r.File[strings.LastIndex(r.File, "/tool: ")+len("/tool: "):]
		for _, f := range r.Failures {
			failed[name] += f.Message + "\n"
		}
		if r.Skipped != "" {
			skipped[name] = r.Skipped
		}
	}
	return failed, skipped
}

func TestToolsThatKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script{
		"stdin":         {mode("stdin") + looks + example, "cat"},
		"dashdashequal": {mode("dashdashequal") + looks + example, `printf '%s\n' "${1#*=}"`},
		"positional":    {mode("positional") + looks + example, `printf '%s\n' "$1"`},
		"a file's name": {mode("dashdashequal") + `"effects": "idempotent", "examples": [{"args": {"text": "x"}, "files": {"{text}": "old"}, "writes": {"{text}": "^new\\n$"}}]`, `echo new >"./${1#*=}"`},
		"refusals":      {mode("stdin") + looks + example, `text=$(cat; echo .); [ ${#text} -gt 2 ] && [ ${#text} -lt 1000 ] || { echo refused >&2; exit 1; }; printf '%s' "${text%.}"`},
		"failing":       {about + noArgs + looks + `, "examples": [{"args": {}, "fails": true, "result": "bad"}]`, "echo bad >&2; exit 3"},
		"one refusal":   {mode("dashdashequal") + looks + `, "examples": [{"args": {"text": "-"}, "fails": true, "result": "dash"}]`, `[ "$1" != --text=- ] || { echo dash >&2; exit 2; }`},
		"made up":       {mode("stdin") + looks, "cat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if failed, _ := problems(Test(t.Context(), s.open(t), Options{Environ: os.Environ(), Describe: time.Minute})); len(failed) > 0 {
				t.Errorf("failures: %q", failed)
			}
		})
	}
}

func TestToolsThatBreakTheContract(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		script
		check, want string
	}{
		{"another description each time", script{`"description": "$$", ` + noArgs + looks, "true"}, "describe", "describe prints something else"},
		{"the description of a time zone", script{`"description": "$TZ", ` + noArgs + looks, "true"}, "describe", "describe prints something else"},
		{"a description that writes", script{about + noArgs + looks + "$(echo x >here)", "true"}, "describe", "describe writes here"},
		{"the first line alone", script{mode("stdin") + looks + example, `read -r line; printf '%s\n' "$line"`}, "argument text", `lines: the result does not match "^{text}\n$": "one\n"`},
		{"no quotes", script{mode("dashdashequal") + looks + example, `printf '%s\n' ${1#*=}`}, "argument text", "lines: the result does not match"},
		{"a value as a format", script{mode("dashdashequal") + looks + example, `printf "${1#*=}\n"`}, "argument text", "quotes: "},
		{"a value as an option", script{mode("dashdashequal") + looks + `, "examples": [{"args": {"text": "x"}, "files": {"{text}": "old"}, "result": "old"}]`, `cat "${1#*=}"`}, "argument text", "a leading dash: exit status 1"},
		{"a value as a command", script{mode("stdin") + looks + example, `eval "echo $(cat)"`}, "argument text", "quotes: "},
		{"silence", script{about + noArgs + looks + `, "examples": [{"args": {}, "fails": true}]`, "exit 4"}, "examples[0]", "exit status 4, and it does not say why"},
		{"an example that fails", script{about + noArgs + looks + empty, "echo oh >&2; exit 4"}, "examples[0]", `exit status 4: "oh"`},
		{"an example that does not fail", script{about + noArgs + looks + `, "examples": [{"args": {}, "fails": true}]`, "true"}, "examples[0]", "exit status 0"},
		{"another result", script{about + noArgs + looks + `, "examples": [{"args": {}, "result": "^a$"}]`, "echo b"}, "examples[0]", `does not match "^a$": "b\n"`},
		{"no file", script{about + noArgs + looks + `, "examples": [{"args": {}, "writes": {"a": ""}}]`, "true"}, "examples[0]", "the file a does not match"},
		{"not text", script{about + noArgs + looks + empty, `printf '\377'`}, "examples[0]", "stdout is not text"},
		{"a signal", script{about + noArgs + looks + empty, "kill -9 $$"}, "examples[0]", "signal: killed"},
		{"made up, and killed", script{mode("stdin") + looks, "kill -9 $$"}, "run", "signal: killed"},
		{"endless", script{about + noArgs + looks + empty, "sleep 1000"}, "examples[0]", "it does not end within 1s"},
		{"a lock that stays", script{about + noArgs + looks + empty, "mkdir lock || exit 1"}, "two at once", "exit status 1"},
		{"deaf to SIGTERM", script{mode("stdin") + looks + example, "trap '' TERM; cat"}, "SIGTERM", "it does not end within 2s of SIGTERM"},
		{"effects none, and a file", script{about + noArgs + looks + empty, "echo x >log"}, "effects", `it declares "none" and writes log`},
		{"effects none, and a file less", script{about + noArgs + looks + `, "examples": [{"args": {}, "files": {"a": ""}}]`, "rm -f a"}, "effects", `it declares "none" and writes a`},
		{"idempotent, and more each time", script{about + noArgs + `"effects": "idempotent"` + empty, "echo x >>log"}, "effects", "it changes log"},
		{"an unknown key", script{about + noArgs + looks + `, "examples": [{"arg": {}}]`, "true"}, "examples", `unknown field "arg"`},
		{"a wrong pattern", script{about + noArgs + looks + `, "examples": [{"args": {}, "result": "("}]`, "true"}, "examples", "missing closing )"},
		{"wrong arguments", script{about + noArgs + looks + `, "examples": [{"args": {"x": 1}}]`, "true"}, "examples", "there is none of this name"},
		{"a file elsewhere", script{about + noArgs + looks + `, "examples": [{"args": {}, "files": {"../x": ""}}]`, "true"}, "examples", "is not a path in the working directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Environ: os.Environ()}
			if tt.name == "endless" {
				o.Timeout = time.Second
			}
			failed, _ := problems(Test(t.Context(), tt.open(t), o))
			if !strings.Contains(failed[tt.check], tt.want) {
				t.Errorf("failures of %q: %q, want %q; all: %q", tt.check, failed[tt.check], tt.want, failed)
			}
		})
	}
}

// How long a description may take is a limit of the options.
func TestASlowDescriptionFails(t *testing.T) {
	t.Parallel()
	s := script{mode("stdin") + looks + example, "cat"}
	failed, _ := problems(Test(t.Context(), s.open(t), Options{Environ: os.Environ(), Describe: time.Nanosecond}))
	if len(failed) != 1 || !strings.HasPrefix(failed["describe"], "describe takes ") {
		t.Errorf("failed: %q", failed)
	}
}

// A tool with effects is not called with arguments that nobody wrote.
func TestToolsWithEffectsAreNotCalled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fields string
		madeUp       bool
		calls        string // what the tool got, sorted out of what it wrote
		skipped      string
	}{
		{"no examples", mode("stdin") + `"effects": "once"`, false, "", "it has effects and no examples: it was not called"},
		{"nothing declared", mode("stdin") + `"locks": []`, false, "", "it has effects and no examples: it was not called"},
		{"--run", mode("stdin") + `"effects": "once"`, true, "x", ""},
		{"an example", mode("stdin") + `"effects": "once", "examples": [{"args": {"text": "given"}}]`, false, "given", "no example shows {text}, and the tool has effects: it got no other values"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := filepath.Join(t.TempDir(), "seen")
			tool := script{tt.fields, fmt.Sprintf("cat >>'%s'", seen)}.open(t)
			failed, skipped := problems(Test(t.Context(), tool, Options{Environ: os.Environ(), MadeUp: tt.madeUp}))
			data, _ := os.ReadFile(seen)
			if got, _, _ := strings.Cut(string(data), "\n"); got != tt.calls || tt.calls == "given" && strings.Trim(string(data), "given\n") != "" {
				t.Errorf("the tool got %q, want %q", data, tt.calls)
			}
			if len(failed) > 0 || skipped["run"]+skipped["argument text"] != tt.skipped {
				if tt.skipped != "" || len(failed) > 0 {
					t.Errorf("failures %q, skipped %q, want %q", failed, skipped, tt.skipped)
				}
			}
		})
	}
}

// refusing is a sandbox that confines nothing.
type refusing struct{}

func (refusing) Confine(c *process.Command) (*process.Confined, error) {
	return &process.Confined{Path: c.Path, Args: c.Args, Env: c.Env}, nil
}

func TestRefusedWritesAreEffects(t *testing.T) {
	t.Parallel()
	tool := script{about + noArgs + looks + empty, "echo refused >&2"}.open(t)
	failed, _ := problems(Test(t.Context(), tool, Options{Environ: os.Environ(), Sandbox: func(string) (process.Sandbox, func(string) []string) {
		return refusing{}, func(stderr string) []string { return []string{"write: " + stderr} }
	}}))
	if got := failed["effects"]; got != "write: refused\n\n" {
		t.Errorf("effects: %q", got)
	}
}

func TestAllKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var tools []*exectool.Tool
	for i := range 5 {
		tools = append(tools, script{fmt.Sprintf(`"description": "%d", `, i) + noArgs + looks, "true"}.open(t))
	}
	var got []string
	TestAll(t.Context(), tools, Options{Environ: os.Environ()}, func(r []treetest.Report) { got = append(got, strings.TrimSuffix(r[0].File, ": describe")) })
	for i, tool := range tools {
		if got[i] != tool.Path() {
			t.Errorf("reports of %s, want those of %s", got[i], tool.Path())
		}
	}
}

// The first signals come before the tool can have started.
func TestASignalThatComesTooEarlyComesAgain(t *testing.T) {
	t.Parallel()
	tool := script{about + noArgs + looks + `, "examples": [{"args": {}}]`, "exec sleep 1000"}.open(t)
	desc, err := tool.Description()
	if err != nil {
		t.Fatal(err)
	}
	list, err := examples(desc)
	if err != nil {
		t.Fatal(err)
	}
	tested := &tester{Options: Options{Environ: os.Environ()}, path: tool.Path(), abs: tool.Path(), desc: desc}
	if failures, skipped := tested.signal(t.Context(), list[0], 0); len(failures) > 0 || skipped != "" {
		t.Errorf("signal = %q, %q, want neither failures nor a reason to skip it", failures, skipped)
	}
}
