package treetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/provider/scripted"
	"github.com/agents-exe/agents/pkg/runner"
)

// recordRun runs a test file's scripts with real tools, as a real model would be
// run, and records it.
func recordRun(t *testing.T, file, prompt string, models map[string]string) Recording {
	t.Helper()
	root, err := agentfile.Load(t.Context(), filepath.Join(tree, file), agentfile.Options{
		Environ: options.Environ, Folders: options.Folders,
		Model: func(f *agentfile.File) agent.Provider {
			script, err := scripted.Parse(f.Spec.Slug, []byte(models[f.Spec.Slug]))
			if err != nil {
				return noModel{f.Spec.Slug}
			}
			return &scripted.Provider{Script: script}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	rec := Recording{AgentFile: filepath.Join(tree, file), Prompt: prompt}
	r := &runner.Runner{Agent: root.Root, Observe: func(e agent.Event) { rec.Events = append(rec.Events, e) }}
	_, _ = r.Run(t.Context(), agent.UserText(prompt)) // its end is among the events
	return rec
}

// recordAndRun writes what was recorded and runs it.
func recordAndRun(t *testing.T, rec Recording) (text string, r Report) {
	t.Helper()
	dir := filepath.Join(tree, "tests", t.Name())
	file := filepath.Join(dir, "recorded"+Suffix)
	data, err := Record(file, rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return string(data), Run(t.Context(), file, options)
}

// everything is a run with all that is hard to repeat: calls that fail, that do
// not run and that are no JSON, the same call with two results, placeholders in
// texts, and a helper that is asked twice.
var everything = map[string]string{
	"root": `{"rules": [
		{"when": {"turn": 1}, "answer": {"reasoning": "I think $${of it}.", "text": "cost: $${price} $$${x}", "calls": [
			{"tool": "bash_one", "args": {"n": "a $${b}"}}, {"tool": "bash_two"}, {"tool": "bash_none", "args": {"x": 1}},
			{"tool": "bash_one", "rawArgs": "{\"n\""}, {"tool": "bash_one", "args": {"m": 1}},
			{"tool": "expert_helper", "args": {"prompt": "one (1)?"}}, {"tool": "expert_helper", "args": {"prompt": "two\n"}},
			{"tool": "expert_scripted", "args": {"prompt": "x"}}]}},
		{"when": {"turn": 2}, "answer": {"text": "done <b>${result.expert_helper}</b>"}}]}`,
	"helper": `{"rules": [
		{"when": {"turn": 1, "prompt": "one"}, "answer": {"calls": [{"tool": "bash_one", "args": {"n": "h"}}]}},
		{"answer": {"text": "helper on ${prompt}"}}]}`,
}

func TestWhatIsRecordedPasses(t *testing.T) {
	t.Parallel()
	text, r := recordAndRun(t, recordRun(t, "agent.json", "Go on\n", everything))
	if !r.OK() {
		t.Errorf("the recorded test\n%s\nfails:\n%s", text, r)
	}
	for _, want := range []string{
		`"agentFile": "../../agent.json"`,
		`"prompt": "Go on\n"`,
		`{"turn": 1, "prompt": "^one \\(1\\)\\?$"}`,
		`"text": "cost: $${price} $$${x}"`,
		`"rawArgs": "{\"n\""`,
		`"answer": "done <b>helper on two</b>"`,
		`"fault": {"status": 400, "message": "`,
		`{"agent": "root", "tool": "bash_none", "args": {"x": 1}, "failed": true}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the recorded test lacks %s:\n%s", want, text)
		}
	}
	for _, without := range []string{`"bash_none": {`, `"m": 1}, "error"`} {
		if strings.Contains(text, without) {
			t.Errorf("the recorded test has a stub for a call that did not run, %s:\n%s", without, text)
		}
	}
}

func TestSameCallWithTwoResultsIsRecorded(t *testing.T) {
	t.Parallel()
	rec := recordRun(t, "agent.json", "x", map[string]string{"root": `{"rules": [
		{"when": {"turn": 1}, "answer": {"calls": [{"tool": "bash_one", "args": {"n": "a"}}]}},
		{"when": {"turn": 2}, "answer": {"calls": [{"tool": "bash_one", "args": {"n": "a"}}]}},
		{"answer": {"text": "done"}}]}`})
	last := -1
	for i, e := range rec.Events {
		if e.Kind == agent.EventCallEnded {
			last = i
		}
	}
	result := *rec.Events[last].Result
	result.Parts = []agent.Part{agent.Text("something else"), {Kind: agent.PartMedia, MIME: "image/png", Data: []byte{1}}}
	rec.Events[last].Result = &result
	text, r := recordAndRun(t, rec)
	if !r.OK() || strings.Count(text, `"times": 1`) != 2 || !strings.Contains(text, `"something else"`) {
		t.Errorf("the recorded test\n%s\n%s", text, r)
	}
}

func TestWhatCannotBeRepeatedIsNotRecorded(t *testing.T) {
	t.Parallel()
	failed := recordRun(t, "agent.json", "x", map[string]string{"root": `{"rules": [{"fault": {"status": 400, "message": "no"}}]}`})
	ambiguous := recordRun(t, "agent.json", "x", map[string]string{
		"root":   `{"rules": [{"when": {"turn": 1}, "answer": {"calls": [{"tool": "expert_helper", "args": {"prompt": "a"}}, {"tool": "expert_helper", "args": {"prompt": "a"}}]}}, {"answer": {"text": "x"}}]}`,
		"helper": `{"rules": [{"answer": {"text": "x"}}]}`,
	})
	for i, e := range ambiguous.Events {
		if e.Kind == agent.EventAnswer && e.Agent == "helper" {
			m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("another answer")}}
			ambiguous.Events[i].Message = &m
			break
		}
	}
	for _, test := range []struct {
		rec  Recording
		want string
	}{
		{Recording{}, "nothing ran"},
		{failed, "a run that ended as failed cannot be recorded: ask model m: HTTP 400: no"},
		{ambiguous, "the agent helper was asked the same twice and answered something different; no script can tell the two apart"},
	} {
		if text, err := Record("a"+Suffix, test.rec); err == nil || err.Error() != test.want {
			t.Errorf("Record = %s, %v, want %q", text, err, test.want)
		}
	}
}

func TestRecordingOfALimitPasses(t *testing.T) {
	t.Parallel()
	text, r := recordAndRun(t, recordRun(t, "limited.json", "x", map[string]string{"limited": `{"rules": [{"answer": {"calls": [{"tool": "bash_one"}]}}]}`}))
	if !r.OK() || !strings.Contains(text, `"status": "limit"`) {
		t.Errorf("the recorded test\n%s\n%s", text, r)
	}
}

func TestSecretsAreNotRecorded(t *testing.T) {
	t.Parallel()
	rec := recordRun(t, "agent.json", "my key is k-123", map[string]string{"root": `{"rules": [{"answer": {"text": "${prompt}"}}]}`})
	rec.Redact = func(s string) string { return strings.ReplaceAll(s, "k-123", "[hidden]") }
	text, r := recordAndRun(t, rec)
	if strings.Contains(text, "k-123") || !r.OK() {
		t.Errorf("the recorded test\n%s\n%s", text, r)
	}
}

func TestFormatKeepsTheValue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 40)
	for _, text := range []string{
		`{}`, `[]`, `{"a":"x, y: \"z\\\\\"","b":[]}`, `{"k":["` + long + `",{"a":1.50,"<":null}],"s":"` + long + `"}`,
	} {
		got := string(format([]byte(text)))
		a, b := decodeJSON([]byte(text)), decodeJSON([]byte(got))
		if !json.Valid([]byte(got)) || !sameJSON(a, b, false) || !sameJSON(b, a, false) {
			t.Errorf("format(%s) = %s", text, got)
		}
	}
	want := "{\n  \"a\": {\"b\": [1, 2, \"x,y:z\\\"\"]}\n}\n"
	if got := string(format([]byte(`{"a":{"b":[1,2,"x,y:z\""]}}`))); got != want {
		t.Errorf("format = %s, want %s", got, want)
	}
}
