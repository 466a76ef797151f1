package session_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/schemas"
	"github.com/google/go-cmp/cmp"
)

func TestEveryLineSatisfiesTheSchema(t *testing.T) {
	doc, err := schemas.Read(schemas.SessionName)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.CompileTrusted(schemas.SessionName, doc)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, path := range []string{closedSession(t), longSession(t, 10, 5)} {
		b, err := os.ReadFile(filepath.Join(path, "journal.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			for _, p := range s.Check(line) {
				t.Errorf("%s: %s", line, p)
			}
		}
	}
	for e := range session.Events(closedSession(t)) {
		kinds[string(e.Kind)] = true
	}
	if len(kinds) < 7 {
		t.Errorf("only the kinds %v were looked at", kinds)
	}
}

func TestTheSchemaKnowsEveryMember(t *testing.T) {
	doc, err := schemas.Read(schemas.SessionName)
	if err != nil {
		t.Fatal(err)
	}
	type object struct{ Properties map[string]any }
	var s struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(doc, &s); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"sum", "chain", "synced", "format", "version", "id", "dir", "client", "pid", "pid_start"} { // what is about the file
		if s.Properties[k] == nil {
			t.Errorf("the schema does not know %s", k)
		}
		delete(s.Properties, k)
	}
	defs := map[string]object{"": s.object}
	maps.Copy(defs, s.Defs)
	for def, v := range map[string]any{
		"": agent.Event{}, "message": agent.Message{}, "part": agent.Part{}, "call": agent.ToolCall{}, "result": agent.ToolResult{},
		"usage": agent.Usage{}, "toolUsage": agent.ToolUsage{}, "spent": agent.TotalUsage{}, "limits": agent.Limits{}, "spec": agent.ToolSpec{}, "left": agent.LeftCall{},
	} {
		var want []string
		for field := range reflect.TypeOf(v).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "-" {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(defs[def].Properties))); diff != "" {
			t.Errorf("%T (-type +schema):\n%s", v, diff)
		}
	}
}
