package provider_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// Ids of calls that another server wrote fit those of each server: a call and its result have
// the same in every request, and two calls never one.
func TestLongIDsOfCallsAreReplaced(t *testing.T) {
	limits := map[string]int{"openai-v1 chat": 40, "openai-v1 responses": 64, "openai-compatible responses": 64, "anthropic anthropic": 64, "mistral-v1 chat": 9}
	var ids []string
	for _, n := range []int{1, 9, 39, 40, 41, 45, 63, 64, 65, 100, 256} {
		ids = append(ids, strings.Repeat("x", n-1)+"1", strings.Repeat("x", n-1)+"2")
	}
	req := &agent.Request{Messages: []agent.Message{agent.UserText("go"), {Role: agent.RoleAssistant}, {Role: agent.RoleTool}}}
	for _, id := range ids {
		req.Messages[1].Calls = append(req.Messages[1].Calls, agent.ToolCall{ID: id, Name: "t", Args: "{}"})
		req.Messages[2].Results = append(req.Messages[2].Results, agent.ToolResult{CallID: id, Name: "t", Parts: []agent.Part{agent.Text("r")}})
	}
	for _, r := range rows() {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			bodies = append(bodies, string(body))
			io.WriteString(w, r.turn)
		}))
		transport := &http.Transport{}
		settings := modelhttp.Settings{Model: "m", Client: &http.Client{Transport: hosts{server.Listener.Addr().String(), transport}}}
		if r.flavor == "openai-compatible" {
			settings.BaseURL = server.URL
		}
		p := r.provider(settings)
		for range 2 {
			if _, err := p.Generate(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
		}
		transport.CloseIdleConnections()
		server.Close()
		calls := sentIDs(bodies[0], `"(?:id|call_id)":"([^"]*)"`)
		results := sentIDs(bodies[0], `"(?:tool_call_id|tool_use_id|call_id)":"([^"]*)"`)
		if r.protocol == "responses" { // both are call_id
			calls, results = calls[:len(calls)/2], results[len(results)/2:]
		}
		if !slices.Equal(calls, results) || bodies[0] != bodies[1] || !json.Valid([]byte(bodies[0])) {
			t.Errorf("%s %s: calls %q, results %q", r.flavor, r.protocol, calls, results)
		}
		limit := limits[r.flavor+" "+r.protocol]
		seen := map[string]bool{}
		for i, id := range calls {
			if seen[id] || limit > 0 && len(id) > limit || (limit == 0 || len(ids[i]) <= limit && limit != 9) && id != ids[i] {
				t.Errorf("%s %s: the id %q became %q", r.flavor, r.protocol, ids[i], id)
			}
			seen[id] = true
		}
		if len(calls) != len(ids) {
			t.Errorf("%s %s: %d calls", r.flavor, r.protocol, len(calls))
		}
	}
}

func sentIDs(body, pattern string) (ids []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}
