package textcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/loosejson"
	"github.com/google/go-cmp/cmp"
)

// tools are those of the tests.
var tools = []agent.ToolSpec{
	{Name: "bash_weather", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}`)},
	{Name: "expert_poet", Schema: json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`)},
	{Name: "list", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// The samples have F in place of three backticks. A call is "NAME ARGS".
func TestRead(t *testing.T) {
	rome := []string{`bash_weather {"city":"Rome"}`}
	for _, test := range []struct {
		name, text string
		calls      []string
		ignored    string
	}{
		{name: "as asked", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "text around", text: "I look.\n\nFjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\nF\n\nThe result is sunny.", calls: rome, ignored: "\nThe result is sunny."},
		{name: "several blocks", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\nF\nand\nFjson\n{\"tool\": \"list\", \"args\": {}}\nF\n", calls: []string{rome[0], "list {}"}},
		{name: "several in a block", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\n{\"tool\": \"list\", \"args\": {}}\nF", calls: []string{rome[0], "list {}"}},
		{name: "an array", text: "Fjson\n[{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}, {\"name\": \"list\"}]\nF", calls: []string{rome[0], "list {}"}},
		{name: "another fence", text: "~~~\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\n~~~", calls: rome},
		{name: "another language", text: "Ftool_call\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "a fence in one line", text: "Fjson {\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}F", calls: rome},
		{name: "no closing fence", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}", calls: rome},
		{name: "no closing brace", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"", calls: rome},
		{name: "no fence", text: "I look.\n{\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}", calls: rome},
		{name: "a label", text: "Action: {\"tool\": \"bash_weather\", \"args\": {\"city\":\"Rome\"}}", calls: rome},
		{name: "a tag", text: "<tool_call>\n{\"name\": \"bash_weather\", \"arguments\": {\"city\":\"Rome\"}}\n</tool_call>", calls: rome},
		{name: "name and arguments", text: "Fjson\n{\"name\": \"bash_weather\", \"arguments\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "name and parameters", text: "Fjson\n{\"name\": \"bash_weather\", \"parameters\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "action and action_input", text: "Fjson\n{\"action\": \"bash_weather\", \"action_input\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "a function", text: "Fjson\n{\"type\": \"function\", \"function\": {\"name\": \"bash_weather\", \"arguments\": \"{\\\"city\\\":\\\"Rome\\\"}\"}}\nF", calls: rome},
		{name: "tool_calls", text: "Fjson\n{\"tool_calls\": [{\"function\": {\"name\": \"bash_weather\", \"arguments\": {\"city\":\"Rome\"}}}]}\nF", calls: rome},
		{name: "the tool as key", text: "Fjson\n{\"bash_weather\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "arguments beside the name", text: "Fjson\n{\"tool\": \"bash_weather\", \"city\":\"Rome\"}\nF", calls: rome},
		{name: "arguments encoded twice", text: "Fjson\n{\"tool\": \"bash_weather\", \"args\": \"{'city': 'Rome'}\"}\nF", calls: rome},
		{name: "the only argument", text: "Fjson\n{\"tool\": \"expert_poet\", \"args\": \"a poem\"}\nF", calls: []string{`expert_poet {"prompt":"a poem"}`}},
		{name: "no arguments", text: "Fjson\n{\"tool\": \"list\"}\nF", calls: []string{"list {}"}},
		{name: "null arguments", text: "Fjson\n{\"tool\": \"list\", \"args\": null}\nF", calls: []string{"list {}"}},
		{name: "an empty list of arguments", text: "Fjson\n{\"tool\": \"list\", \"args\": []}\nF", calls: []string{"list {}"}},
		{name: "the short name", text: "Fjson\n{\"tool\": \"weather\", \"args\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "a namespace", text: "Fjson\n{\"tool\": \"functions.Bash_Weather\", \"args\": {\"city\":\"Rome\"}}\nF", calls: rome},
		{name: "single quotes", text: "Fjson\n{'tool': 'bash_weather', 'args': {'city':'Rome'}}\nF", calls: rome},
		{name: "curly quotes", text: "Fjson\n{“tool”: “bash_weather”, “args”: {“city”:“Rome”}}\nF", calls: rome},
		{name: "trailing commas and comments", text: "Fjson\n{\"tool\": \"bash_weather\", // it\n \"args\": {\"city\":\"Rome\",},}\nF", calls: rome},
		{name: "literals of Python", text: "Fpython\n{'tool': 'bash_weather', 'args': {'city': None, 'days': True}}\nF", calls: []string{`bash_weather {"city":null,"days":true}`}},
		{name: "no quotes", text: "Fjson\n{tool: bash_weather, args: {city: Rome}}\nF", calls: rome},
		{name: "backticks in an argument", text: "Fjson\n{\"tool\": \"expert_poet\", \"args\": {\"prompt\":\"Fx\\nyF\"}}\nF", calls: []string{"expert_poet {\"prompt\":\"Fx\\nyF\"}"}},
		{name: "an unknown tool", text: "Fjson\n{\"tool\": \"browser\", \"args\": {}}\nF", calls: []string{"browser {}"}},
		{name: "a text without end", text: "Fjson\n{\"tool\": \"expert_poet\", \"args\": {\"prompt\":\"a poem}}\nF", calls: []string{`expert_poet {"tool": "expert_poet", "args": {"prompt":"a poem}}`}},

		{name: "no call", text: "It is sunny."},
		{name: "other JSON", text: "Here it is:\nFjson\n{\"name\": \"Bob\", \"parameters\": {\"age\": 3}}\nF"},
		{name: "a name that is no tool", text: "{\"name\": \"bash\", \"arguments\": {}}"},
		{name: "other broken JSON", text: "Fjson\n{\"name\": \"Bob\n\nF"},
		{name: "an array of other things", text: "[1, 2, {\"tool\": \"list\"}]"},
		{name: "a call in a sentence", text: "You would write {\"tool\": \"list\", \"args\": {}} here."},
		{name: "code", text: "Fgo\nfunc main() {\n\tx := []int{1}\n}\nF"},
		{name: "two calls as one", text: "{\"tool\": \"list\", \"tool\": \"bash_weather\", \"args\": {}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.ReplaceAll(test.text, "F", "```")
			a := JSON{}.Read(text, tools)
			var got []string
			for _, c := range a.Calls {
				got = append(got, c.Name+" "+c.Args)
			}
			for i := range test.calls {
				test.calls[i] = strings.ReplaceAll(test.calls[i], "F", "```")
			}
			if diff := cmp.Diff(test.calls, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if all := a.Text + a.Said + a.Ignored; all != text || a.Ignored != test.ignored {
				t.Errorf("divided into %q, %q, %q", a.Text, a.Said, a.Ignored)
			}
		})
	}
}

// A text that is the only argument stays whole, also if it begins with JSON.
func TestTheOnlyArgumentStaysWhole(t *testing.T) {
	for _, json := range []string{`{"a": 1}`, `{a: b}`, `{'a': ['b', {"c": null}]}`, `{}`} {
		for _, after := range []string{" is JSON; what does it mean?", "\n{\"b\": 2}", ", {}", "\n\nExplain it."} {
			a := JSON{}.Read("```json\n"+loosejson.Write(map[string]string{"tool": "expert_poet", "args": json + after})+"\n```", tools)
			want := []agent.ToolCall{{Name: "expert_poet", Args: loosejson.Write(map[string]string{"prompt": json + after})}}
			if diff := cmp.Diff(want, a.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a\n```json\n{\"tool\": \"list\"}\n```\nb", "{'name': \"list\",", "[[{", "Action: {\"tool\": \"expert_poet\", \"args\": \"x", "<t>{\"list\": {}}</t>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := JSON{}.Read(text, tools)
		if a.Text+a.Said+a.Ignored != text || len(a.Calls) == 0 && a.Text != text {
			t.Errorf("Read(%q) = %+v", text, a)
		}
	})
}
