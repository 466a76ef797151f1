package agentfile_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/prices"
)

// The cost that the server names counts first, then the price of the agent file, then
// that of the table. Without any of them a request is unpriced.
func TestWherePricesComeFrom(t *testing.T) {
	const file = `,"price":{"input":2,"cached":1,"output":10}`
	cost := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":300000,"completion_tokens":100000,"prompt_tokens_details":{"cached_tokens":100000}`+cost+`}}`)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	table, err := prices.Parse("prices.json", fmt.Appendf(nil, `{"prices":[{"hosts":[%q],"source":"s","date":"2026-11-22","models":{"m":{"input":1,"output":1},"other":{"input":2,"output":2}}}]}`, at.Host))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, more, cost string
		table            prices.Table
		choice           agentfile.ModelChoice
		want             string
	}{
		{"the server's", file, `,"cost":0.25`, table, agentfile.ModelChoice{}, "0.25"},
		{"the server says that it is free", file, `,"cost":0`, table, agentfile.ModelChoice{}, "0"},
		{"the file's", file, "", table, agentfile.ModelChoice{}, "1.5"},
		{"the table's", "", "", table, agentfile.ModelChoice{}, "0.4"},
		{"the table's, of the model that a flag names", file, "", table, agentfile.ModelChoice{Name: "other"}, "0.8"},
		{"the file's, with a flag that changes nothing", file, "", table, agentfile.ModelChoice{Name: "m"}, "1.5"},
		{"none", "", "", nil, agentfile.ModelChoice{}, "unpriced"},
		{"none, of a known name at another server", "", "", nil, agentfile.ModelChoice{Name: "gpt-5"}, "unpriced"},
		{"none, of another model", file, "", nil, agentfile.ModelChoice{Name: "other"}, "unpriced"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cost = test.cost
			write(t, "-- agent.json --\n"+remote("root", server.URL, test.more))
			tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Prices: test.table, Models: map[string]agentfile.ModelChoice{"": test.choice}})
			if err != nil {
				t.Fatal(err, lines(tree))
			}
			out, err := host.New(tree).Runner(tree.Root).Run(t.Context(), agent.UserText("hello"))
			if err != nil {
				t.Fatal(err)
			}
			u := out.Total.Usage
			got := u.Cost.String()
			if u.Priced == 0 {
				got = "unpriced"
			}
			if got != test.want || u.Requests != 1 {
				t.Errorf("the cost is %s of %+v, want %s", got, u, test.want)
			}
		})
	}
}

func TestPriceOfAScriptedModel(t *testing.T) {
	write(t, `
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"s.json","price":{"input":1,"output":1}}}
-- s.json --
{"rules":[{"answer":{"text":"hi","usage":{"inputTokens":10,"outputTokens":5}}}]}
`)
	tree, err := load(t, "agent.json")
	if err != nil {
		t.Fatal(err)
	}
	out, err := host.New(tree).Runner(tree.Root).Run(t.Context(), agent.UserText("hello"))
	if text, _ := json.Marshal(out.Total.Usage); err != nil || !strings.Contains(string(text), `"cost":0.000015,"priced":1`) {
		t.Errorf("usage %s, %v", text, err)
	}
}

func TestMistakesInAPrice(t *testing.T) {
	for more, want := range map[string]string{
		`,"price":{"input":1}`:              "contents.price.output: missing",
		`,"price":{"input":-1,"output":1}`:  "contents.price.input: got -1, want at least 0",
		`,"price":3`:                        "contents.price: got number, want object",
		`,"price":{"input":"1","output":1}`: "contents.price.input: got string, want number",
	} {
		write(t, "-- agent.json --\n"+remote("root", "http://localhost:1", more))
		tree, err := load(t, "agent.json")
		if err == nil || !strings.Contains(strings.Join(lines(tree), "\n"), want) {
			t.Errorf("%s: %v, want %s", more, lines(tree), want)
		}
	}
}

// A borrower is told the price in the built-in table, and never one that the user has set.
func TestTheLentPriceIsPublic(t *testing.T) {
	own, err := prices.Parse("prices.json", []byte(`{"prices":[{"hosts":["api.openai.com"],"source":"s","date":"2026-11-22","models":{"gpt-5.5":{"input":1,"output":1}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, model, more string
		table             prices.Table
		known             bool
	}{
		{"of the built-in table", "gpt-5.5", "", nil, true},
		{"of the file", "gpt-5.5", `,"price":{"input":1,"output":1}`, nil, false},
		{"of an own table", "gpt-5.5", "", own, false},
		{"of no table", "gpt-0", "", nil, false},
	} {
		write(t, `-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"openai-v1","modelName":"`+test.model+`","apiKeyId":"k"`+test.more+`}}
-- keys.json --
{"keys":[{"id":"k","value":"sk-0123456789"}]}
`)
		keys, _, err := config.ReadKeys("keys.json")
		if err != nil {
			t.Fatal(err)
		}
		tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Keys: keys, Prices: test.table})
		if err != nil {
			t.Fatal(err, lines(tree))
		}
		l := tree.Root.Lend[0].Described()
		if (l.Price != nil) != test.known || len(l.Can) == 0 {
			t.Errorf("%s: the price is %v, it can %v", test.name, l.Price, l.Can)
		}
		if public, _ := prices.Lookup(nil, "api.openai.com", test.model); test.known && (l.Price.Input != public.Input || l.Price.Output != public.Output) {
			t.Errorf("%s: the price is %v, want %v", test.name, l.Price, public.Price)
		}
	}
}
