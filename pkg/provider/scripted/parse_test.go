package scripted_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

// malformed holds scripts and their errors. ok says that the JSON Schema accepts
// the script: it cannot express some rules.
var malformed = []struct {
	name   string
	script string
	want   string
	ok     bool
}{
	{"empty file", "", `script.json:1:1: there is nothing in it; want a JSON value`, false},
	{"cut off", "{\n \"rules\": [", `script.json:2:12: the text ends too early`, false},
	{"a comma too many", "{\"rules\": [\n  {\"answer\": {\"text\": \"x\"}},\n]}", `script.json:3:1: there is a comma before the closing ]`, false},
	{"text behind it", `{"rules":[{"answer":{"text":""}}]} x`, `script.json:1:36: there is text behind the JSON value`, false},
	{"not UTF-8", "{\"rules\":\n\"a\xff\"}", `script.json:2:3: not valid UTF-8`, false},
	{"an array", `[]`, `script.json:1:1: got array, want object`, false},
	{"no rules", `{}`, `script.json:1:1: the key rules is missing: a script is a list of rules`, false},
	{"empty rules", `{"rules": []}`, `script.json:1:11: rules: there is no rule; a script needs at least one`, false},
	{"rules of the wrong kind", `{"rules": {}}`, `script.json:1:11: rules: got object, want array`, false},
	{"unknown key", `{"rulez": [], "rules": [{"answer":{"text":""}}]}`, `script.json:1:2: unknown key "rulez"; did you mean "rules"?`, false},
	{"unknown key of another case", rules(`{"Answer":{"text":""}, "answer":{"text":""}}`), `script.json:1:12: rules[0]: unknown key "Answer"; did you mean "answer"?`, false},
	{"unknown key like no other", rules(`{"answer":{"text":""}, "xyzzy": 1}`), `script.json:1:34: rules[0]: unknown key "xyzzy"; known are name, when, answer, fault, delayMillis, deltaMillis, times`, false},
	{"unknown condition", rules(`{"answer":{"text":""}}`, `{"when":{"lastMesage":"x"},"answer":{"text":""}}`), `script.json:2:10: rules[1].when: unknown key "lastMesage"; did you mean "lastMessage"?`, false},
	{"a key twice", rules(`{"answer":{"text":"a"},"answer":{"text":"b"}}`), `script.json:1:34: rules[0]: the key "answer" is repeated`, true},
	{"a rule that is no object", rules(`"hello"`), `script.json:1:11: rules[0]: got string, want object`, false},
	{"neither answer nor fault", rules(`{"when":{"turn":1}}`), `script.json:1:11: rules[0]: the rule needs an answer or a fault`, false},
	{"answer and fault", rules(`{"answer":{"text":""},"fault":{"status":500}}`), `script.json:1:11: rules[0]: an answer and a fault together are possible with the kind broken_stream only`, false},
	{"broken stream of nothing", rules(`{"fault":{"kind":"broken_stream"}}`), `script.json:1:11: rules[0]: a broken_stream needs an answer whose beginning is sent`, false},
	{"empty answer", rules(`{"answer":{}}`), `script.json:1:21: rules[0].answer: the answer is empty; write "text": "" if that is meant`, false},
	{"text that is null", rules(`{"answer":{"text":null}}`), `script.json:1:29: rules[0].answer.text: got null, want string`, false},
	{"unknown finish", rules(`{"answer":{"finish":"lenght"}}`), `script.json:1:31: rules[0].answer.finish: "lenght" is not known; did you mean "length"?`, false},
	{"negative delay", rules(`{"answer":{"text":""},"delayMillis":-1}`), `script.json:1:47: rules[0].delayMillis: must be between 0 and 3600000, not -1`, false},
	{"half a turn", rules(`{"when":{"turn":1.5},"answer":{"text":""}}`), `script.json:1:27: rules[0].when.turn: must be a whole number, not 1.5`, false},
	{"a turn of the wrong kind", rules(`{"when":{"turn":"1"},"answer":{"text":""}}`), `script.json:1:27: rules[0].when.turn: got string, want number`, false},
	{"times 0", rules(`{"times":0,"answer":{"text":""}}`), `script.json:1:20: rules[0].times: must be between 1 and 1000000, not 0`, false},
	{"unknown role", rules(`{"when":{"role":"assistant"},"answer":{"text":""}}`), `script.json:1:27: rules[0].when.role: "assistant" is not known; known are user, tool`, false},
	{"failed that is text", rules(`{"when":{"failed":"yes"},"answer":{"text":""}}`), `script.json:1:29: rules[0].when.failed: got string, want boolean`, false},
	{"pattern", rules(`{"when":{"lastMessage":"(a"},"answer":{"text":"${1}"}}`), `script.json:1:34: rules[0].when.lastMessage: the pattern does not compile: missing closing ): "(a"`, true},
	{"pattern of an agent", rules(`{"when":{"agent":"a**"},"answer":{"text":""}}`), `script.json:1:28: rules[0].when.agent: the pattern does not compile: invalid nested repetition operator: "**"`, true},
	{"control characters", rules(`{"when":{"agent":"\u001b[2J["},"answer":{"text":"${a\nb\u001b}"}}`), "script.json:1:28: rules[0].when.agent: the pattern does not compile: missing closing ]: \"[2J[\"\nscript.json:1:59: rules[0].answer.text: ${a\\nb\\x1b}: there is no such value or group; known are prompt, lastMessage, result, turn, agent, tools, system", true},
	{"control characters in a key", rules(`{"answer":{"calls":[{"tool":"t","args":{"a\u001b[2J\n":"${x}"}}]}}`), "script.json:1:66: rules[0].answer.calls[0].args[\"a\\x1b[2J\\n\"]: ${x}: there is no such value or group; known are prompt, lastMessage, result, turn, agent, tools, system", true},
	{"a group name twice", rules(`{"when":{"prompt":"(?P<x>a)","lastMessage":"(?P<x>b)"},"answer":{"text":""}}`), `script.json:1:54: rules[0].when: the group name "x" is taken: it would have two values`, true},
	{"a group named like a value", rules(`{"when":{"prompt":"(?P<turn>a)"},"answer":{"text":""}}`), `script.json:1:29: rules[0].when: the group name "turn" is taken: it would have two values`, true},
	{"open placeholder", rules(`{"answer":{"text":"a ${prompt"}}`), `script.json:1:29: rules[0].answer.text: "${prompt" has no closing brace; write $${ for a literal ${`, true},
	{"empty placeholder", rules(`{"answer":{"text":"${}"}}`), `script.json:1:29: rules[0].answer.text: ${}: a name is missing`, true},
	{"unknown value", rules(`{"when":{"prompt":"(?P<host>a)"},"answer":{"text":"${hots}"}}`), `script.json:1:61: rules[0].answer.text: ${hots}: there is no such value or group; did you mean "host"?`, true},
	{"group without a pattern", rules(`{"answer":{"text":"${1}"}}`), `script.json:1:29: rules[0].answer.text: ${1}: the rule has neither lastMessage nor prompt, whose groups it could be`, true},
	{"group that is not there", rules(`{"when":{"prompt":"(a)"},"answer":{"text":"${2}"}}`), `script.json:1:53: rules[0].answer.text: ${2}: the pattern "(a)" has no group 2`, true},
	{"result of what", rules(`{"answer":{"text":"${result}"}}`), `script.json:1:29: rules[0].answer.text: ${result}: which result? Write ${result.0}, ${result.TOOL} or ${result.TOOL#0}`, true},
	{"result of a bad number", rules(`{"answer":{"text":"${result.a#x}"}}`), `script.json:1:29: rules[0].answer.text: ${result.a#x}: "a#x" does not say which result; write TOOL#0 for the first of a tool`, true},
	{"placeholder deep in args", rules(`{"answer":{"calls":[{"tool":"t","args":{"a":[{"b":"${no}"}]}}]}}`), `script.json:1:61: rules[0].answer.calls[0].args.a[0].b: ${no}: there is no such value or group; known are prompt, lastMessage, result, turn, agent, tools, system`, true},
	{"call without a tool", rules(`{"answer":{"calls":[{"args":{}}]}}`), `script.json:1:31: rules[0].answer.calls[0]: the key tool is missing: it names the tool, as in bash_ping`, false},
	{"call of nothing", rules(`{"answer":{"calls":[{"tool":""}]}}`), `script.json:1:39: rules[0].answer.calls[0].tool: must not be empty`, false},
	{"args and rawArgs", rules(`{"answer":{"calls":[{"tool":"t","args":{},"rawArgs":""}]}}`), `script.json:1:63: rules[0].answer.calls[0].rawArgs: args and rawArgs exclude each other`, false},
	{"args that are text", rules(`{"answer":{"calls":[{"tool":"t","args":"{}"}]}}`), `script.json:1:50: rules[0].answer.calls[0].args: got string, want object`, false},
	{"an argument twice", rules(`{"answer":{"calls":[{"tool":"t","args":{"a":1,"a":2}}]}}`), `script.json:1:57: rules[0].answer.calls[0].args: the key "a" is repeated; rawArgs can hold such arguments`, true},
	{"empty $json", rules(`{"answer":{"calls":[{"tool":"t","args":{"a":{"$json":""}}}]}}`), `script.json:1:55: rules[0].answer.calls[0].args.a: $json must not be empty`, true},
	{"$json that is a number", rules(`{"answer":{"calls":[{"tool":"t","args":{"a":{"$json":1}}}]}}`), `script.json:1:64: rules[0].answer.calls[0].args.a.$json: got number, want string`, true},
	{"usage below zero", rules(`{"answer":{"text":"","usage":{"inputTokens":-1}}}`), `script.json:1:55: rules[0].answer.usage.inputTokens: must be between 0 and 1000000000, not -1`, false},
	{"fault of no kind", rules(`{"fault":{}}`), `script.json:1:20: rules[0].fault: must have one of status and kind`, false},
	{"unknown fault", rules(`{"fault":{"kind":"time_out"}}`), `script.json:1:28: rules[0].fault.kind: "time_out" is not known; did you mean "timeout"?`, false},
	{"status of a success", rules(`{"fault":{"status":200}}`), `script.json:1:30: rules[0].fault.status: must be between 400 and 599, not 200`, false},
	{"retryAfter without a status", rules(`{"fault":{"kind":"reset","retryAfterSeconds":1}}`), `script.json:1:56: rules[0].fault.retryAfterSeconds: belongs to faults with status only`, false},
	{"afterDeltas of a reset", rules(`{"fault":{"kind":"reset","afterDeltas":1}}`), `script.json:1:50: rules[0].fault.afterDeltas: belongs to faults with the kind broken_stream only`, false},
	{"several", "{\"rules\":[\n{\"when\":{\"turn\":0}},\n{\"answr\":1,\n\"fault\":{\"status\":1}}]}", `script.json:2:1: rules[0]: the rule needs an answer or a fault
script.json:2:17: rules[0].when.turn: must be between 1 and 1000000, not 0
script.json:3:2: rules[1]: unknown key "answr"; did you mean "answer"?
script.json:4:19: rules[1].fault.status: must be between 400 and 599, not 1`, false},
}

func TestMalformedScriptsAreExplained(t *testing.T) {
	for _, test := range malformed {
		t.Run(test.name, func(t *testing.T) {
			s, err := scripted.Parse("script.json", []byte(test.script))
			if err == nil {
				t.Fatalf("Parse = %v, want an error", s)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("Parse's error (-want +got):\n%s", diff)
			}
			var p *scripted.Problem
			if !errors.As(err, &p) || p.File != "script.json" || p.Line < 1 || p.Column < 1 {
				t.Errorf("errors.As finds %+v, want a problem with its place", p)
			}
		})
	}
}

func TestLongScriptsAreRefused(t *testing.T) {
	_, err := scripted.Parse("script.json", []byte(rules(`{"answer":{"text":""}}`)+strings.Repeat(" ", scripted.MaxBytes)))
	if got := text(err); got != "script.json:1:1: the text is 16777250 bytes long; the limit is 16777216" {
		t.Errorf("Parse's error = %s", got)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// documented returns the scripts among the examples of the documentation.
func documented(t testing.TB) [][]byte {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scripted-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, m := range regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllSubmatch(doc, -1) {
		all = append(all, m[1])
	}
	if len(all) < 3 {
		t.Fatalf("the documentation has %d scripts, want 3 at least", len(all))
	}
	return all
}

func TestDocumentedScriptsParse(t *testing.T) {
	for _, script := range documented(t) {
		if _, err := scripted.Parse("docs/scripted-model.md", script); err != nil {
			t.Errorf("Parse: %v\n%s", err, script)
		}
	}
}

func TestSchemaAgreesWithParse(t *testing.T) {
	path := filepath.Join("..", "..", "..", "schemas", "script.schema.json")
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(script []byte) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(script))
		if err != nil {
			return err
		}
		return schema.Validate(doc)
	}
	for _, script := range append(documented(t), []byte(everything)) {
		if err := validate(script); err != nil {
			t.Errorf("the schema refuses a good script: %v\n%s", err, script)
		}
	}
	for _, test := range malformed {
		if !json.Valid([]byte(test.script)) || !strings.HasPrefix(test.script, "{") {
			continue
		}
		if err := validate([]byte(test.script)); (err == nil) != test.ok {
			t.Errorf("%s: the schema says %v, want an error: %v\n%s", test.name, err, !test.ok, test.script)
		}
	}
}

// everything uses every key.
const everything = `{
  "$schema": "x", "description": "all keys",
  "rules": [
    {"name": "n", "times": 2, "delayMillis": 5, "deltaMillis": 1,
     "when": {"agent": "a.*", "turn": 1, "role": "user", "prompt": "(p)", "lastMessage": "(?P<m>l)", "tool": "t", "failed": false},
     "answer": {"text": "$${x} $ ${1} ${m} ${0}", "reasoning": "${prompt}${lastMessage}${turn}${agent}${tools}${system}",
       "calls": [{"tool": "t", "args": {"a": "${result.0.x.0:-d}", "b": [1, null, {"$json": "[${turn}]"}], "c": {"d": true}}, "id": ""},
                 {"tool": "u", "rawArgs": "{${result.t}${result.t#1}"}],
       "finish": "length",
       "usage": {"inputTokens": 1, "cachedTokens": 1, "outputTokens": 1, "reasoningTokens": 0, "cost": 0.5}}},
    {"fault": {"status": 429, "code": "c", "message": "m", "retryAfterSeconds": 0.5}},
    {"fault": {"kind": "broken_stream", "afterDeltas": 3}, "answer": {"text": "x"}},
    {"fault": {"kind": "timeout"}}, {"fault": {"kind": "reset"}}, {"fault": {"kind": "bad_json", "message": "m"}}
  ]
}`

func TestEveryKeyParses(t *testing.T) {
	parse(t, everything)
}

func seeds(f *testing.F) {
	for _, script := range append(documented(f), []byte(everything), []byte(twice), []byte(greet)) {
		f.Add(script)
	}
	for _, m := range malformed {
		if len(m.script) < 1000 {
			f.Add([]byte(m.script))
		}
	}
}

// FuzzParse checks that every script is either accepted or refused with a place
// inside it.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse("script.json", data)
		if (s == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v; want one of them", s, err)
		}
		var p *scripted.Problem
		if err != nil && (!errors.As(err, &p) || p.Line < 1 || p.Column < 1 || p.Column > len(data)+1) {
			t.Fatalf("the error has no place in the script: %#v", err)
		}
	})
}

// FuzzConversation checks that with any script each request of a conversation is
// answered or fails.
func FuzzConversation(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse("script.json", data)
		if err != nil {
			return
		}
		p := &scripted.Provider{Script: s, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
		first := user("ping localhost 3 times hello to ann")
		second := results(user("ping localhost"), res{"bash_ping", "{\"a\": [1, {\"b\": \"c\"}]}\n", false}, res{"t", "error: \xff", true})
		for _, req := range []*agent.Request{{}, first, first, second, second} {
			resp, err := p.Generate(t.Context(), req, func(agent.Delta) {})
			switch {
			case err != nil:
				modelError(t, err)
			case resp.Message.Role != agent.RoleAssistant || resp.Finish == "":
				t.Fatalf("Generate = %+v, want an answer", resp)
			}
		}
	})
}

// TestLongScripts: a long answer is read in a time that grows with its length, not with the square.
func TestLongScripts(t *testing.T) {
	const n = 300_000
	for name, answer := range map[string]string{
		"numbers":      `{"calls":[{"tool":"x","args":{"a":[` + strings.Repeat("1,", n) + `1]}}]}`,
		"objects":      `{"calls":[{"tool":"x","args":{"a":[` + strings.Repeat(`{"b":1},`, n) + `1]}}]}`,
		"placeholders": `{"calls":[{"tool":"x","args":{"a":[` + strings.Repeat(`"${prompt}",`, n) + `1]}}]}`,
		"escapes":      `{"text":"` + strings.Repeat("$${a", n) + `"}`,
	} {
		begin := time.Now()
		if _, err := scripted.Parse("x", []byte(`{"rules":[{"answer":`+answer+`}]}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: %d bytes took %s", name, len(answer), took)
		}
	}
}
