package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
	"github.com/google/go-cmp/cmp"
)

func TestJSONLinesOnARun(t *testing.T) {
	for name, pieces := range map[string]bool{"events.jsonl": false, "pieces.jsonl": true} {
		var out bytes.Buffer
		j := &JSONLines{W: &out, Pieces: pieces}
		for _, e := range agenttest.Story() {
			before := strings.Count(out.String(), "\n")
			j.Observe(e)
			if n := strings.Count(out.String(), "\n") - before; n > 1 {
				t.Errorf("event %s is %d lines, want 1 at most", e.Kind, n)
			}
		}
		golden(t, name, out.String())
		if strings.ContainsFunc(out.String(), func(r rune) bool { return termtext.Hidden(r) && r != '\n' }) {
			t.Errorf("control characters in the output: %q", out.String())
		}
	}
}

func TestJSONLinesAreTheEvents(t *testing.T) {
	var out bytes.Buffer
	j := &JSONLines{W: &out, Pieces: true}
	e := agent.Event{Kind: agent.EventText, Text: "DEL \x7f C1 \u009b bidi \u202e tag \U000e0041 <&> é"}
	for _, e := range append(agenttest.Story(), e) {
		j.Observe(e)
	}
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	for _, want := range append(agenttest.Story(), e) {
		var got agent.Event
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event %s read back (-want +got):\n%s", want.Kind, diff)
		}
	}
	if dec.More() {
		t.Error("more lines than events")
	}
	line := string(jsonLine(e))
	if !strings.Contains(line, `DEL \u007f C1 \u009b bidi \u202e tag \udb40\udc41 <&> é`) {
		t.Errorf("line %q", line)
	}
}

func TestJSONLinesMarksAnEventThatIsNoJSON(t *testing.T) {
	var out bytes.Buffer
	j := &JSONLines{W: &out}
	j.Observe(agent.Event{Kind: agent.EventAnswer, Session: "S", Specs: []agent.ToolSpec{{Schema: json.RawMessage("{")}}})
	j.Observe(agent.Event{Kind: agent.EventEnd, Session: "S"})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"text":"cannot encode an event of kind answer as JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"`) {
		t.Errorf("lines %q", lines)
	}
}

// fullDisk fails from its second write on, within it.
type fullDisk struct{ writes int }

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.writes++; d.writes > 1 {
		return len(p) / 2, errFull
	}
	return len(p), nil
}

func TestAWriteErrorIsKeptAndEndsTheSink(t *testing.T) {
	disk := map[string]*fullDisk{"json": {}, "log": {}, "stream": {}, "text": {}}
	j, l := &JSONLines{W: disk["json"]}, &view.LogText{W: disk["log"]}
	s, text := &view.Stream{W: disk["stream"]}, &view.Text{W: disk["text"]}
	observe := Tee(j.Observe, nil, l.Observe, s.Observe, text.Observe)
	for _, e := range agenttest.Story() {
		observe(e)
	}
	for name, err := range map[string]error{"json": j.Err(), "log": l.Err(), "stream": s.Err()} {
		if !errors.Is(err, errFull) {
			t.Errorf("%s: Err() = %v, want %v", name, err, errFull)
		}
	}
	for name, d := range disk {
		if d.writes != 2 {
			t.Errorf("%s: %d writes, want none after the one that failed", name, d.writes)
		}
	}
}

func TestOpenLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(s string) {
		t.Helper()
		f, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, s); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	write("two, torn")
	write("three\n")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "one\ntwo, torn\nthree\n"; string(got) != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	_, err = OpenLog(filepath.Join(filepath.Dir(path), "none", "log"))
	if err == nil || !strings.HasSuffix(err.Error(), "none/log: no such file or directory") {
		t.Errorf("a folder that is missing: %v", err)
	}
}

// An observer that panics stops; the others go on, and the run that they show.
func TestAnObserverThatPanicsStops(t *testing.T) {
	var bad, good int
	var said string
	watch := GuardedTee(func(text string) { said += text }, func(agent.Event) { bad++; panic("the view") }, func(agent.Event) { good++ })
	for range 3 {
		watch(agent.Event{Kind: agent.EventText})
	}
	if bad != 1 || good != 3 || !strings.HasPrefix(said, "internal error: the view\n") {
		t.Errorf("called %d and %d times, want 1 and 3; reported %s", bad, good, said)
	}
}
