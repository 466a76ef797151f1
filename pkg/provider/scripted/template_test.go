package scripted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func TestPlaceholders(t *testing.T) {
	req := func() *agent.Request {
		r := user("old", "send 12 letters to ann\n")
		r.System = "You help."
		r.Tools = []agent.ToolSpec{{Name: "bash_a"}, {Name: "bash_b"}}
		r = results(r, res{"bash_a", "early\n", false}, res{"bash_j", "{\"n\": 1.50, \"s\": \"x\\ny\", \"l\": [true, null, {\"k\": [ 1 ]}], \"\": 2}\n", false})
		return results(r, res{"bash_a", "first\n\n", false}, res{"bash_b", "", false}, res{"bash_a", "last", true})
	}
	when := `{"prompt":"send (\\d+) (?P<what>\\w+)(?: to (?P<who>\\w+))?(?: by (?P<how>\\w+))?"}`
	tests := []struct{ text, want, err string }{
		{"plain $5 $x $$ }", "plain $5 $x $$ }", ""},
		{"$${what} $$${what}", "${what} $${what}", ""},
		{"${what}$${what}${what}", "letters${what}letters", ""},
		{"${1} ${2} ${3}|${0}", "12 letters ann|send 12 letters to ann", ""},
		{"${what}${who}", "lettersann", ""},
		{"${prompt}!", "send 12 letters to ann!", ""},
		{"${lastMessage}", "first\n\nlast", ""},
		{"${turn} ${agent}", "3 helper", ""},
		{"${tools}|${system}", "bash_a, bash_b|You help.", ""},
		{"${result.0}${result.2}", "firstlast", ""},
		{"<${result.1}>", "<>", ""},
		{"${result.bash_a}", "last", ""},
		{"${result.bash_a#0} ${result.bash_a#1} ${result.bash_a#2}", "early first last", ""},
		{"${result.bash_j.n} ${result.bash_j#0.s}", "1.5 x\ny", ""},
		{"${result.bash_j.l} ${result.bash_j.l.2.k.0}", `[true,null,{"k":[1]}] 1`, ""},
		{"${result.bash_j.l.1}", "null", ""},
		{"${how:-hand} ${who:-nobody} ${result.1:-empty} ${result.9:-}", "hand ann empty ", ""},
		{"${result.bash_j.no.way:-no}${result.nothing:-, no}", "no, no", ""},
		{"${how}", "", `${how}: the group did not match`},
		{"${result.3}", "", `${result.3}: the last message has 3 results`},
		{"${result.bash_x}", "", `${result.bash_x}: there is no result of bash_x since the prompt; there are results of bash_a, bash_j, bash_a, bash_b, bash_a (failed)`},
		{"${result.bash_a#3}", "", `${result.bash_a#3}: there are 3 results of bash_a since the prompt`},
		{"${result.bash_j.x}", "", `${result.bash_j.x}: there is no key "x" in "{\"n\": 1.50, \"s\": \"x\\ny\", \"l\": [true, null, {\"k\": [ 1 ]}], \"\": 2}"`},
		{"${result.bash_j.l.3}", "", `${result.bash_j.l.3}: there is no element "3" in "[true, null, {\"k\": [ 1 ]}]"`},
		{"${result.bash_j.n.x}", "", `${result.bash_j.n.x}: there is no "x" in "1.50"`},
		{"${result.0.x}", "", `${result.0.x}: the text is not valid JSON: "first"`},
		{"${turn.x}", "", `${turn.x}: there is no "x" in "3"`},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			quoted, _ := json.Marshal(test.text)
			script := rules(`{"name":"r","when":` + when + `,"answer":{"text":` + string(quoted) + `}}`)
			resp, err := ask(t, script, req())
			if test.err != "" {
				want := `rules[0] "r" (script.json:1): ` + test.err
				if e := modelError(t, err); e.Error() != want || e.Temporary {
					t.Errorf("Generate's error:\n%v\nwant\n%s", e, want)
				}
				return
			}
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			if got := resp.Message.Text(); got != test.want {
				t.Errorf("%q becomes %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func TestGroupsOfBothPatterns(t *testing.T) {
	script := rules(`{"when":{"prompt":"(?P<a>\\w+) (?P<b>\\w+)","lastMessage":"(\\d+) (?P<unit>\\w+)"},"answer":{"text":"${a} ${b} ${unit} ${1} ${2}"}}`)
	got := answer(t, script, results(user("one two"), res{"t", "it took 3 days", false})).Message.Text()
	if want := "one two days 3 days"; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}

func TestNumberedGroupsOfTheLastMessage(t *testing.T) {
	script := rules(`{"when":{"lastMessage":"(\\w+)-(\\w+)"},"answer":{"text":"${2} ${1}"}}`)
	if got := answer(t, script, user("a-b")).Message.Text(); got != "b a" {
		t.Errorf("the answer is %q, want %q", got, "b a")
	}
}

func TestFilledValuesAreNotScannedAgain(t *testing.T) {
	script := rules(`{"when":{"lastMessage":"(?P<x>.*)"},"answer":{"text":"${x}|${prompt:-${turn}","calls":[{"tool":"t","args":{"v":"${x}"}}]}}`)
	resp := answer(t, script, user(`${turn} $${agent} ${nothing} "}`))
	if got, want := resp.Message.Text(), `${turn} $${agent} ${nothing} "}|${turn} $${agent} ${nothing} "}`; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	if got, want := resp.Message.Calls[0].Args, `{"v":"${turn} $${agent} ${nothing} \"}"}`; got != want {
		t.Errorf("the arguments are %s, want %s", got, want)
	}
}

func TestArguments(t *testing.T) {
	value := "a\"b\\c\n<é>\u2028"
	tests := []struct{ name, call, want, err string }{
		{"none", `"tool":"t"`, `{}`, ""},
		{"order and numbers stay", `"args":{"z":1.50,"a":12345678901234567890,"m":[ -0, 1e9 , null,true]}`, `{"z":1.50,"a":12345678901234567890,"m":[-0,1e9,null,true]}`, ""},
		{"strings are quoted", `"args":{"v":"<${prompt}>"}`, `{"v":"<a\"b\\c\n<é>\u2028>"}`, ""},
		{"at any depth", `"args":{"l":[{"k":"${turn}"},"${turn}"],"e":{},"f":[]}`, `{"l":[{"k":"1"},"1"],"e":{},"f":[]}`, ""},
		{"keys are not filled in", `"args":{"${turn}":"${turn}"}`, `{"${turn}":"1"}`, ""},
		{"escapes stay", `"args":{"v":"\u00e9\ud83d\ude00\/"}`, `{"v":"\u00e9\ud83d\ude00\/"}`, ""},
		{"json", `"args":{"n":{"$json":"${turn}"},"l":{"$json":"[${turn}, \"x\"]"},"o":{"$json":"1","b":2}}`, `{"n":1,"l":[1, "x"],"o":{"$json":"1","b":2}}`, ""},
		{"json as a whole", `"args":{"$json":"{\"t\": ${turn}}"}`, `{"t": 1}`, ""},
		{"no json", `"args":{"n":{"$json":"${agent}"}}`, "", `rules[0] (script.json:1): $json: the value is not valid JSON: "helper"`},
		{"missing", `"args":{"n":"${result.0}"}`, "", `rules[0] (script.json:1): ${result.0}: the last message has 0 results`},
		{"raw", `"rawArgs":"{\"v\": ${turn}, oops"`, `{"v": 1, oops`, ""},
		{"raw and empty", `"rawArgs":""`, ``, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			call := test.call
			if !strings.Contains(call, `"tool"`) {
				call = `"tool":"t",` + call
			}
			resp, err := ask(t, rules(`{"answer":{"calls":[{`+call+`}]}}`), user(value))
			if test.err != "" {
				if text(err) != test.err {
					t.Errorf("Generate = %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("Generate: %v", err)
			}
			if got := resp.Message.Calls[0].Args; got != test.want {
				t.Errorf("the arguments are %s, want %s", got, test.want)
			}
		})
	}
	t.Run("survive", func(t *testing.T) {
		resp := answer(t, rules(`{"answer":{"calls":[{"tool":"t","args":{"v":"${prompt}"}}]}}`), user(value))
		args, err := agent.DecodeArgs(resp.Message.Calls[0].Args)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := agent.ArgText(args["v"]); got != value || err != nil {
			t.Errorf("the argument is %q (%v), want %q", got, err, value)
		}
	})
}

func TestAnswerWithItsValuesIsLimited(t *testing.T) {
	script := rules(`{"answer":{"text":"` + strings.Repeat("${prompt}", 17) + `"}}`)
	_, err := ask(t, script, user(strings.Repeat("x", 1<<20)))
	if want := "rules[0] (script.json:1): the answer with its values is longer than 16777216 bytes"; text(err) != want {
		t.Errorf("Generate = %.200v, want %s", err, want)
	}
}
