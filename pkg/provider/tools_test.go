package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider"
)

// A server of any protocol gets no schema of a tool that makes it refuse the request, and a
// tool without such a schema is left out.
func TestNoRequestHasACombinatorAtTheTopOfASchema(t *testing.T) {
	const good, bad = `{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"oneOf":[{"required":["a"]}]}`, `{"anyOf":[{"type":"string"}]}`
	each(t, func(t *testing.T, pr protocol) {
		var body []byte
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body)
			io.WriteString(w, pr.answer("hi"))
		})
		for _, tools := range [][]agent.ToolSpec{
			{{Name: "good", Description: "Is good.", Schema: json.RawMessage(good)}, {Name: "bad", Schema: json.RawMessage(bad)}},
			{{Name: "bad", Schema: json.RawMessage(bad)}},
		} {
			if _, err := p.Generate(t.Context(), &agent.Request{System: "s", Messages: modeltest.Hello.Messages, Tools: tools}, nil); err != nil {
				t.Fatal(err)
			}
			fitted := `{"properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"type":"object"}`
			if !json.Valid(body) || strings.Contains(string(body), `"bad"`) || len(tools) == 2 && !strings.Contains(string(body), fitted) {
				t.Errorf("%s", body)
			}
		}
		outer := &provider.Retry{Provider: pr.open(p.Settings)}
		fitter, ok := agent.As[agent.ToolFitter](outer)
		if !ok {
			t.Fatal("the provider does not say what is refused")
		}
		if _, changed, err := fitter.FitTool(agent.ToolSpec{Schema: json.RawMessage(good)}); err != nil || len(changed) != 1 {
			t.Errorf("changed %q, %v", changed, err)
		}
		if _, _, err := fitter.FitTool(agent.ToolSpec{Schema: json.RawMessage(bad)}); err == nil {
			t.Error("a schema that no object satisfies is offered")
		}
	})
}
