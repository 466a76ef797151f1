package scripted_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

func TestConditions(t *testing.T) {
	asked := func() *agent.Request { return user("ping localhost\n") }
	once := func() *agent.Request { return results(asked(), res{"bash_ping", "pong 7\n", false}) }
	mixed := func() *agent.Request {
		return results(asked(), res{"bash_ping", "pong", false}, res{"bash_stat", "error: gone", true})
	}
	tests := []struct {
		when string
		req  *agent.Request
		want bool
	}{
		{`{}`, asked(), true},
		{`{}`, &agent.Request{}, true},
		{`{"agent":"helper"}`, asked(), true},
		{`{"agent":"help"}`, asked(), false},
		{`{"agent":"elper"}`, asked(), false},
		{`{"agent":"editor|helper"}`, asked(), true},
		{`{"agent":"help|x"}`, asked(), false},
		{`{"agent":"h.*"}`, asked(), true},
		{`{"turn":1}`, asked(), true},
		{`{"turn":1}`, once(), false},
		{`{"turn":2}`, once(), true},
		{`{"role":"user"}`, asked(), true},
		{`{"role":"user"}`, once(), false},
		{`{"role":"user"}`, &agent.Request{}, false},
		{`{"role":"tool"}`, asked(), false},
		{`{"role":"tool"}`, once(), true},
		{`{"prompt":"^ping (\\w+)$"}`, asked(), true},
		{`{"prompt":"^ping (\\w+)$"}`, once(), true},
		{`{"prompt":"PING"}`, asked(), false},
		{`{"prompt":"(?i)PING"}`, asked(), true},
		{`{"prompt":"first"}`, user("first", "second"), false},
		{`{"prompt":"second"}`, user("first", "second"), true},
		{`{"lastMessage":"^ping localhost$"}`, asked(), true},
		{`{"lastMessage":"ping"}`, once(), false},
		{`{"lastMessage":"^pong \\d$"}`, once(), true},
		{`{"lastMessage":"^pong\nerror: gone$"}`, mixed(), true},
		{`{"tool":"bash_ping"}`, asked(), false},
		{`{"tool":"bash_ping"}`, once(), true},
		{`{"tool":"ping"}`, once(), false},
		{`{"tool":"bash_.*"}`, once(), true},
		{`{"tool":"bash_ping"}`, results(once(), res{"bash_stat", "", false}), false},
		{`{"failed":true}`, asked(), false},
		{`{"failed":false}`, asked(), false},
		{`{"failed":true}`, once(), false},
		{`{"failed":false}`, once(), true},
		{`{"failed":true}`, mixed(), true},
		{`{"failed":false}`, mixed(), false},
		{`{"failed":true, "tool":"bash_ping"}`, mixed(), false},
		{`{"failed":false,"tool":"bash_ping"}`, mixed(), true},
		{`{"failed":true, "tool":"bash_stat"}`, mixed(), true},
		{`{"turn":1,"role":"user","prompt":"ping","agent":"other"}`, asked(), false},
		{`{"turn":1,"role":"user","prompt":"ping","agent":"helper"}`, asked(), true},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i, test.when), func(t *testing.T) {
			script := rules(`{"when":`+test.when+`,"answer":{"text":"fits"}}`, `{"answer":{"text":"next"}}`)
			got := answer(t, script, test.req).Message.Text()
			if (got == "fits") != test.want {
				t.Errorf("when %s: the rule that answers is %q, want that it fits: %v", test.when, got, test.want)
			}
		})
	}
}

func TestFirstRuleThatFitsWins(t *testing.T) {
	script := rules(
		`{"when":{"lastMessage":"b"},"answer":{"text":"one"}}`,
		`{"when":{"lastMessage":"a"},"answer":{"text":"two"}}`,
		`{"answer":{"text":"three"}}`)
	for prompt, want := range map[string]string{"ab": "one", "a": "two", "c": "three"} {
		if got := answer(t, script, user(prompt)).Message.Text(); got != want {
			t.Errorf("the answer to %q is %q, want %q", prompt, got, want)
		}
	}
}

func TestUnmatchedConversationShowsTheNearestRule(t *testing.T) {
	one := `{"when":{"agent":"editor","turn":1,"role":"user"},"answer":{"text":""}}`
	two := `{"name":"count words","when":{"agent":"helper","lastMessage":"^count (\\d+)"},"answer":{"text":""}}`
	tests := []struct {
		name   string
		script string
		req    *agent.Request
		want   string
	}{
		{"pattern", rules(one, two), user("count x\n"),
			`no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] (script.json:1), does not because of agent: "editor" is not the agent, which is "helper"; the last message, of "user", is "count x"`},
		{"more conditions held", rules(two, strings.Replace(one, "1", "2", 1)), user("hello"),
			`no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] "count words" (script.json:1), does not because of lastMessage: "^count (\\d+)" does not match the last message, "hello"; the last message, of "user", is "hello"`},
		{"two conditions", rules(two), results(&agent.Request{Agent: "x"}, res{"bash_a", "A", false}, res{"bash_b", "error: B", true}),
			`no rule of script.json fits turn 1 of agent "x": the nearest, rules[0] "count words" (script.json:1), does not because of agent: "helper" is not the agent, which is "x" and lastMessage: "^count (\\d+)" does not match the last message, "A\nerror: B"; the last message, of "tool", is "A\nerror: B" (there are results of bash_a, bash_b (failed))`},
		{"second line", "{\"rules\":[\n" + two + "]}", user(strings.Repeat("ä", 200)),
			`no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] "count words" (script.json:2), does not because of lastMessage: "^count (\\d+)" does not match the last message, "` + strings.Repeat("ä", 120) + `" and 160 bytes more; the last message, of "user", is "` + strings.Repeat("ä", 120) + `" and 160 bytes more`},
		{"results", rules(`{"when":{"role":"tool","tool":"bash_a","failed":true},"answer":{"text":""}}`), user("\x1b[2J"),
			`no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] (script.json:1), does not because of role: the last message is of "user", not "tool" and tool: "bash_a" has no result in the last message; there are no results and failed: it must be true; there are no results; the last message, of "user", is "\x1b[2J"`},
		{"prompt and turn", rules(`{"when":{"turn":3,"prompt":"a"},"answer":{"text":""}}`), user("b"),
			`no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] (script.json:1), does not because of turn: it is turn 1, not 3 and prompt: "a" does not match the prompt, "b"; the last message, of "user", is "b"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ask(t, test.script, test.req)
			e := modelError(t, err)
			if !errors.Is(err, scripted.ErrNoRule) || e.Temporary {
				t.Errorf("Generate = %+v, want ErrNoRule that is not temporary", e)
			}
			if err.Error() != test.want {
				t.Errorf("Generate =\n%s\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestUnmatchedConversationListsUsedRules(t *testing.T) {
	p := &scripted.Provider{Script: parse(t, rules(`{"when":{"role":"user"},"times":2,"answer":{"text":"yes"}}`, `{"when":{"turn":9,"role":"tool"},"answer":{"text":""}}`))}
	for range 2 {
		if _, err := p.Generate(t.Context(), user("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.Generate(t.Context(), user("x"), nil)
	want := `no rule of script.json fits turn 1 of agent "helper": the nearest, rules[0] (script.json:1), does not because of times: it was used 2 times in this session; the last message, of "user", is "x"`
	if text(err) != want {
		t.Errorf("the third request: %v, want %s", err, want)
	}
}
