package prices_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

func dollars(t *testing.T, s string) agent.Money {
	t.Helper()
	m, err := agent.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCostOfARequest(t *testing.T) {
	cached, written := dollars(t, "0.125"), dollars(t, "2.5")
	long := &prices.LongPrice{Over: 1000, Price: prices.Price{Input: 5 * agent.Dollar, Output: 20 * agent.Dollar}}
	for _, test := range []struct {
		name  string
		price prices.Price
		usage agent.Usage
		want  string // "" if it is not known
	}{
		{"tokens in and out", prices.Price{Input: dollars(t, "1.25"), Output: 10 * agent.Dollar}, agent.Usage{InputTokens: 2600, OutputTokens: 400}, "0.00725"},
		{"cached ones cost less", prices.Price{Input: dollars(t, "1.25"), Cached: &cached, Output: 10 * agent.Dollar}, agent.Usage{InputTokens: 2600, CachedTokens: 1900, OutputTokens: 400}, "0.0051125"},
		{"without a price of their own they do not", prices.Price{Input: 2 * agent.Dollar}, agent.Usage{InputTokens: 10, CachedTokens: 10}, "0.00002"},
		{"written to the cache they cost more", prices.Price{Input: 2 * agent.Dollar, Cached: &cached, CacheWrite: &written}, agent.Usage{InputTokens: 2600, CachedTokens: 1900, CacheWriteTokens: 500}, "0.0018875"},
		{"written for an hour they cost twice as much as input", prices.Price{Input: 2 * agent.Dollar, Cached: &cached, CacheWrite: &written}, agent.Usage{InputTokens: 2600, CachedTokens: 1900, CacheWriteTokens: 500, CacheHourTokens: 300}, "0.0023375"},
		{"for an hour without a price", prices.Price{Input: 2 * agent.Dollar}, agent.Usage{InputTokens: 10, CacheWriteTokens: 10, CacheHourTokens: 10}, "0.00002"},
		{"written without a price of their own they do not", prices.Price{Input: 2 * agent.Dollar}, agent.Usage{InputTokens: 10, CacheWriteTokens: 10}, "0.00002"},
		{"more written than there are", prices.Price{Input: 2 * agent.Dollar, Cached: &cached, CacheWrite: &written}, agent.Usage{InputTokens: 10, CachedTokens: 8, CacheWriteTokens: 8}, "0.000006"},
		{"more cached than there are", prices.Price{Input: 2 * agent.Dollar, Cached: &cached}, agent.Usage{InputTokens: 8, CachedTokens: 10}, "0.000001"},
		{"half a unit is rounded up", prices.Price{Input: dollars(t, "0.005")}, agent.Usage{InputTokens: 1}, "0.00000001"},
		{"less is rounded down", prices.Price{Input: dollars(t, "0.0049")}, agent.Usage{InputTokens: 1}, "0"},
		{"a model that is free", prices.Price{}, agent.Usage{InputTokens: 1}, "0"},
		{"a server that counted nothing", prices.Price{Input: agent.Dollar}, agent.Usage{}, ""},
		{"a request that is just short", prices.Price{Input: agent.Dollar, Long: long}, agent.Usage{InputTokens: 1000}, "0.001"},
		{"a long one", prices.Price{Input: agent.Dollar, Long: long}, agent.Usage{InputTokens: 1001, OutputTokens: 1}, "0.005025"},
		{"no overflow", prices.Price{Input: prices.MaxPrice, Output: prices.MaxPrice}, agent.Usage{InputTokens: math.MaxInt, OutputTokens: math.MaxInt}, "1000000"},
	} {
		cost, ok := test.price.Of(test.usage)
		if ok != (test.want != "") || ok && cost.String() != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, cost, ok, test.want)
		}
	}
}

type fixed struct {
	usage agent.Usage
	err   error
}

func (f fixed) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	if f.err != nil {
		return nil, f.err
	}
	return &agent.Response{Usage: f.usage}, nil
}

func TestProviderAddsTheCostThatTheServerDoesNotName(t *testing.T) {
	price := &prices.Price{Input: agent.Dollar, Output: agent.Dollar}
	tokens := agent.Usage{Requests: 1, InputTokens: 500_000, OutputTokens: 500_000}
	named, free := tokens, tokens
	named.Cost, named.Priced = 7, 1
	free.Priced = 1
	for _, test := range []struct {
		name         string
		usage        agent.Usage
		price        *prices.Price
		cost         agent.Money
		priced, asks int
	}{
		{"by the price", tokens, price, agent.Dollar, 1, 1},
		{"without a price", tokens, nil, 0, 0, 1},
		{"named by the server", named, price, 7, 1, 0},
		{"named as free", free, price, 0, 1, 0},
		{"nothing counted", agent.Usage{Requests: 1}, price, 0, 0, 1},
	} {
		asks := 0
		p := &prices.Provider{Provider: fixed{usage: test.usage}, Price: func() *prices.Price { asks++; return test.price }}
		resp, err := p.Generate(t.Context(), nil, nil)
		if err != nil || resp.Usage.Cost != test.cost || resp.Usage.Priced != test.priced || asks != test.asks {
			t.Errorf("%s: %+v, %v, the price asked for %d times", test.name, resp.Usage, err, asks)
		}
	}
	failed := &agent.ModelError{Message: "cut", Usage: tokens}
	if _, err := (&prices.Provider{Provider: fixed{err: fmt.Errorf("ask: %w", failed)}, Price: func() *prices.Price { return price }}).Generate(t.Context(), nil, nil); !errors.Is(err, failed) || failed.Usage.Cost != agent.Dollar || failed.Usage.Priced != 1 {
		t.Errorf("a failed request that consumed something: %v, %+v", err, failed.Usage)
	}
	broken := errors.New("broken")
	if _, err := (&prices.Provider{Provider: fixed{err: broken}}).Generate(t.Context(), nil, nil); err != broken {
		t.Errorf("the error of the provider became %v", err)
	}
}

const own = `{"prices": [{"hosts": ["API.openai.com", "localhost:8000"], "source": "our contract", "date": "2026-11-22",
  "models": {"gpt-5": {"input": 1, "output": 2}, "ours": {"input": 3, "output": 4, "aliases": ["ours-too"]}}}]}`

// What a failed request consumed may be more than what is known: its cost is the least, and it
// stays unpriced.
func TestAFailedRequestHasItsLeastCost(t *testing.T) {
	price := &prices.Price{Input: 2 * agent.Dollar, Output: 4 * agent.Dollar}
	for name, tt := range map[string]struct{ usage, want agent.Usage }{
		"nothing":     {},
		"reported":    {agent.Usage{Requests: 1, InputTokens: 1e6, OutputTokens: 1e6}, agent.Usage{Requests: 1, InputTokens: 1e6, OutputTokens: 1e6, Cost: 6 * agent.Dollar, Priced: 1}},
		"estimated":   {agent.Usage{Requests: 1, InputTokens: 1e6, Estimated: 1}, agent.Usage{Requests: 1, InputTokens: 1e6, Estimated: 1, Cost: 2 * agent.Dollar}},
		"by a server": {agent.Usage{Requests: 1, InputTokens: 1, Estimated: 1, Cost: 7, Priced: 1}, agent.Usage{Requests: 1, InputTokens: 1, Estimated: 1, Cost: 7, Priced: 1}},
	} {
		p := &prices.Provider{Provider: failing{tt.usage}, Price: func() *prices.Price { return price }}
		_, err := p.Generate(t.Context(), &agent.Request{}, nil)
		if failed, ok := errors.AsType[*agent.ModelError](err); !ok || failed.Usage != tt.want {
			t.Errorf("%s: %v, usage %+v, want %+v", name, err, failed.Usage, tt.want)
		}
		if got := p.LeastCost(tt.usage); tt.usage.InputTokens == 1e6 && got != tt.want.Cost {
			t.Errorf("%s: LeastCost = %s, want %s", name, got, tt.want.Cost)
		}
	}
}

type failing struct{ usage agent.Usage }

func (f failing) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return nil, &agent.ModelError{Message: "broke off", Usage: f.usage}
}

func TestLookup(t *testing.T) {
	table, err := prices.Parse("prices.json", []byte(own))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		own         prices.Table
		host, model string
		want        string // of the input; "" for none
	}{
		{nil, "api.openai.com", "gpt-5", "1.25"},
		{nil, "API.OpenAI.com:443", "gpt-5", "1.25"},
		{nil, "api.openai.com", "gpt-5-2025-08-07", "1.25"},
		{nil, "api.openai.com", "gpt-4o-2024-08-06", "2.5"},
		{nil, "api.openai.com", "gpt-4o-2024-05-13", "5"}, // a version with a price of its own
		{nil, "api.anthropic.com", "claude-haiku-4-5-20251001", "1"},
		{nil, "generativelanguage.googleapis.com", "models/gemini-2.5-pro", "1.25"},
		{nil, "api.openai.com", "gpt-5-turbo", ""},
		{nil, "api.openai.com", "GPT-5", ""},
		{nil, "api.openai.com", "gpt-5-2025-08-0x", ""},
		{nil, "api.openai.com", "-2025-08-07", ""},
		{nil, "localhost:8000", "gpt-5", ""},
		{nil, "127.0.0.1:11434", "gpt-4o", ""},
		{nil, "openrouter.ai", "openai/gpt-5", ""},
		{nil, "api.moonshot.cn", "kimi-k3", ""},
		{nil, "notapi.openai.com", "gpt-5", ""},
		{table, "api.openai.com", "gpt-5", "1"},
		{table, "api.openai.com", "gpt-5-2025-08-07", "1"},
		{table, "api.openai.com", "gpt-5-mini", "0.25"},
		{table, "localhost:8000", "ours-too", "3"},
		{table, "localhost:8001", "ours", ""},
		{table, "localhost", "ours", ""},
	} {
		got := ""
		if m, ok := prices.Lookup(test.own, test.host, test.model); ok {
			got = m.Input.String()
		}
		if got != test.want {
			t.Errorf("Lookup(%d own, %s, %s) = %q, want %q", len(test.own), test.host, test.model, got, test.want)
		}
	}
	all := prices.All(table)
	if n := len(prices.Builtin()); len(all) != n+1 { // gpt-5 replaced, ours added
		t.Errorf("All has %d models, want %d", len(all), n+1)
	}
}

// The table has what `agents prices` promises for each of its models.
func TestBuiltinTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range prices.Builtin() {
		if day, err := time.Parse(time.DateOnly, m.Date); err != nil || day.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || !strings.HasPrefix(m.Source, "https://") {
			t.Errorf("%s: source %q of %q", m.Name, m.Source, m.Date)
		}
		if m.Input <= 0 || m.Output < m.Input || m.Cached != nil && *m.Cached >= m.Input || m.Long != nil && (m.Long.Input <= m.Input || m.Long.Output <= m.Output) {
			t.Errorf("%s: the price looks wrong: %+v", m.Name, m.Price)
		}
		if writes := m.Hosts[0] == "api.anthropic.com"; writes != (m.CacheWrite != nil) || writes && (*m.CacheWrite <= m.Input || *m.CacheWrite >= 2*m.Input) {
			t.Errorf("%s: the price of cache writes looks wrong: %+v", m.Name, m.Price)
		}
		for _, name := range append(m.Aliases, m.Name) {
			for _, host := range m.Hosts {
				if seen[host+" "+name] {
					t.Errorf("%s has two prices for %s", host, name)
				}
				seen[host+" "+name] = true
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("the table has %d names", len(seen))
	}
}

func TestMistakesInAFile(t *testing.T) {
	price := func(models string) string {
		return `{"prices": [{"hosts": ["h"], "source": "s", "date": "2026-11-22", "models": ` + models + `}]}`
	}
	for text, want := range map[string]string{
		`{"prices": [}`:               "p.json:1:13: ",
		`[]`:                          "p.json:1:1: got array, want an object",
		`{}`:                          "p.json:1:1: prices is missing",
		`{"prices": []}`:              "p.json:1:12: prices: want a list that is not empty",
		`{"prices": [{}], "more": 1}`: "p.json:1:13: prices[0]: hosts is missing\np.json:1:13: prices[0]: models is missing\np.json:1:13: prices[0]: source is missing\np.json:1:13: prices[0]: date is missing\np.json:1:26: more: unknown key; known are $schema, prices",
		price(`{"m": 1}`):             "got number, want an object",
		price(`[]`):                   "got array, want an object: the price by the model's name",
		price(`{"m": {"input": 1}}`):  `prices[0].models.m: output is missing`,
		price(`{"m": {"input": "1", "output": 1}}`):                                "prices[0].models.m.input: want the US dollars of a million tokens",
		price(`{"m": {"input": -1, "output": 1}}`):                                 "m.input: want the US dollars",
		price(`{"m": {"input": 1, "output": 1e7}}`):                                "m.output: want the US dollars",
		price(`{"m": {"input": 1, "output": 1, "long": {"over": 0}}}`):             "m.long.over: want a number of tokens",
		price(`{"m": {"input": 1, "input": 2, "output": 1}}`):                      "m.input: this key is there twice",
		strings.Replace(own, "API.openai.com", "https://api.openai.com", 1):        `prices[0].hosts[0]: "https://api.openai.com" is not the name of a host`,
		strings.Replace(own, "2026-11-22", "22.11.2026", 1):                        `prices[0].date: "22.11.2026" is not a date`,
		strings.Replace(own, `"API.openai.com", "localhost:8000"`, `"", 1, {}`, 1): "prices[0].hosts[1]: want a string that is not empty",
	} {
		if _, err := prices.Parse("p.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s)\n got %v\nwant %s", text, err, want)
		}
	}
}

// What the published schema accepts is a table, and what it refuses is not.
func TestParseAgreesWithTheSchema(t *testing.T) {
	source, err := schemas.Read(schemas.PricesName)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.CompileTrusted(schemas.PricesName, source)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("../../schemas/testdata/*/prices-*.json")
	if len(files) < 2 {
		t.Fatalf("there are only the files %v", files)
	}
	for _, file := range append(files, "prices.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		problems := s.Check(text)
		if _, err := prices.Parse(file, text); (err == nil) != (len(problems) == 0) {
			t.Errorf("%s: Parse says %v, the schema %v", file, err, problems)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(own)
	f.Add(`{"prices": [{"models": {"m": {"long": {"long": 1}}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := prices.Parse("", []byte(text))
		if err != nil {
			return
		}
		for _, m := range table {
			m.Of(agent.Usage{InputTokens: 1, OutputTokens: 1})
			if got, ok := prices.Lookup(table, m.Hosts[0], m.Name); !ok || got.File != "" {
				t.Errorf("%q of %q is not found", m.Name, m.Hosts)
			}
		}
	})
}
