package schema_test

import (
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
)

func TestAnswer(t *testing.T) {
	s, err := schema.CompileAnswer("n.json", []byte(` {"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}} `))
	if err != nil {
		t.Fatal(err)
	}
	was := &agent.Agent{Slug: "a", System: "Count."}
	a := s.Of(was)
	if was.OutputSchema != nil || !strings.Contains(a.OutputSchema.Instructions, `"required":["n"]`) {
		t.Errorf("the agent's output is %+v", a.OutputSchema)
	}
	for _, tc := range []struct{ answer, want, wrong string }{
		{`{"n": 1}`, `{"n": 1}`, ""},
		{"\n```json\n{\"n\": 1}\n```\n", `{"n": 1}`, ""},
		{"```\n{\"n\": 1}```", `{"n": 1}`, ""},
		{"Here: {\"n\": 1}", "", "does not satisfy the JSON Schema n.json:\n- the whole [syntax]"},
		{"", "", "[syntax]"},
		{`{"n": "x"}`, "", "/n [type]"},
		{`{}`, "", "[required]"},
	} {
		got, err := s.Accept(t.Context(), tc.answer)
		if got != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("Accept(%q) = %q, %v; want %q, %q", tc.answer, got, err, tc.want, tc.wrong)
		}
	}
}

func TestAnAnswersSchemaIsChecked(t *testing.T) {
	for doc, want := range map[string]string{
		`{"type": "nothing"}`: "compile schema n.json",
		"":                    "compile schema n.json",
		strings.Repeat(" ", schema.MaxAnswer) + "{}": "longer than",
	} {
		if _, err := schema.CompileAnswer("n.json", []byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CompileAnswer(%d bytes) = %v, want %q", len(doc), err, want)
		}
	}
}
