package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestAHooksAnswerIsReadStrictly(t *testing.T) {
	for moment, keys := range map[string][]string{
		agent.HookBeforeCall: {"deny", "args"}, agent.HookAfterCall: {"result"}, agent.HookBeforePrompt: {"deny", "context"},
		agent.HookSessionStart: {"context"}, agent.HookEnd: nil,
	} {
		for text, ok := range map[string]bool{
			`{}`: true, " {}\n": true, ``: false, `null`: false, `[]`: false, `"x"`: false, `{}{}`: false, `{} x`: false, `{"a":1}`: false, `{"Deny":"x"}`: false,
			`{"deny":1}`: false, `{"args":[]}`: false, `{"args":"{}"}`: false, `{"result":null}`: false, `{"context":{}}`: false, `{"deny":"a","deny":"b"}`: false,
			`{"args":{"a":1,"a":2}}`: false, "{\"deny\":\"\xff\"}": false,
		} {
			if a, err := readHook(moment, text); (err == nil) != ok {
				t.Errorf("readHook(%s, %q) = %+v, %v", moment, text, a, err)
			}
		}
		for key, value := range map[string]string{"deny": `"no"`, "args": `{"b":1.0}`, "result": `""`, "context": `"c"`} {
			a, err := readHook(moment, `{"`+key+`":`+value+`}`)
			if (err == nil) != slices.Contains(keys, key) {
				t.Errorf("%s at %s: %+v, %v", key, moment, a, err)
			}
			if err == nil && (key == "args" && a.Args != value || key == "result" && (a.Result == nil || *a.Result != "")) {
				t.Errorf("%s at %s is read as %+v", key, moment, a)
			}
		}
	}
}

// A program that does not know a moment, or a key of a set, runs nothing.
func TestHooksOfCallersAreAsked(t *testing.T) {
	s := Set{Source: "a.json", Hooks: []string{agent.HookBeforeCall, agent.HookEnd}}
	if s.Empty() {
		t.Error("a set with hooks permits everything")
	}
	own, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	own.AddHook(Hook{Moment: agent.HookEnd, Name: "x"})
	if list := own.Hooks(agent.HookEnd); len(list) != 1 || list[0].Name != "x" || list[0].Run == nil || own.Hooks(agent.HookAfterCall) != nil {
		t.Errorf("hooks: %+v", list)
	}
	raw, _ := own.MarshalJSON()
	rights, err := Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	read := rights.(agent.Hooked)
	if list := read.Hooks(agent.HookBeforeCall); len(list) != 1 || list[0].Run != nil || read.Hooks(agent.HookAfterCall) != nil {
		t.Errorf("hooks of the caller: %+v", list)
	}
	if _, err := Read(json.RawMessage(`[{"hooks":["before_lunch"]}]`)); err == nil {
		t.Error("an unknown moment is accepted")
	}
}

func TestAnExternalPolicysAnswerIsReadStrictly(t *testing.T) {
	for text, want := range map[string]agent.Verdict{
		`{"verdict":"allow"}`:                            {Decision: agent.Allow},
		" {\"verdict\": \"deny\", \"reason\": \"no\"}\n": {Decision: agent.Deny, Reason: "no"},
		`{"reason":"verdict","verdict":"ask"}`:           {Decision: agent.AskPerson, Reason: "verdict"},
		`{"verdict":"deny","verdict":"allow"}`:           {},
		`{"verdict":"allow","verdict":"allow"}`:          {},
		`{"Verdict":"allow"}`:                            {},
		`{"VERDICT":"allow"}`:                            {},
		`{"verdict":"deny","Verdict":"allow"}`:           {},
		`{"verdict":"allow","note":1}`:                   {},
		`{"verdict":"Allow"}`:                            {},
		`{"verdict":"allow "}`:                           {},
		`{"verdict":["allow"]}`:                          {},
		`{"verdict":null}`:                               {},
		`{"verdict":"allow","reason":5}`:                 {},
		`{"verdict":"allow","reason":"a","reason":"b"}`:  {},
		`{"verdict":"allow"} {"verdict":"deny"}`:         {},
		`{"verdict":"allow"}x`:                           {},
		`["allow"]`:                                      {},
		`"allow"`:                                        {},
		``:                                               {},
		`null`:                                           {},
		"{\"verdict\":\"allow\",\"reason\":\"\xff\"}":    {},
		`{"v\u0065rdict":"deny","verdict":"allow"}`:      {},
		`{"verdict":"allow","reason":"` + strings.Repeat("x", 1<<20) + `"}`: {},
	} {
		if v, err := readVerdict(text); v.Decision != want.Decision && want.Decision != "" || (err == nil) != (want.Decision != "") || err == nil && v != want {
			t.Errorf("readVerdict(%.80q) = %+v, %v, want %+v", text, v, err, want)
		}
	}
}
