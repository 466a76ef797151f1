package unparsed_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// offered are the tools of the samples.
var offered = []agent.ToolSpec{
	tool("get_weather", `"city":{"type":"string"},"days":{"type":"integer"}`),
	tool("get_time", `"zone":{"type":"string"}`),
	tool("search", `"query":{"type":"string"},"limit":{"type":["integer","null"]},"tags":{"type":"array"},"filters":{"type":"object"}`),
	tool("write_file", `"path":{"type":"string"},"content":{"type":"string"},"append":{"type":"boolean"}`),
	tool("list-files", `"path":{"type":"string"}`),
}

func tool(name, properties string) agent.ToolSpec {
	return agent.ToolSpec{Name: name, Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)}
}

// A model answers with a message, in pieces.
type model struct {
	message agent.Message
	piece   int
	err     error
	usage   agent.Usage
}

func (m *model) Generate(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for text := m.message.Text(); text != "" && m.piece > 0; {
		n := min(m.piece, len(text))
		for n < len(text) && text[n]&0xC0 == 0x80 {
			n++
		}
		delta(agent.Delta{Kind: agent.DeltaText, Text: text[:n]})
		text = text[n:]
	}
	return &agent.Response{Message: m.message, Usage: m.usage}, m.err
}

// A sample is a text and what it means.
type sample struct{ name, text, rest, calls string }

// samples reads testdata/samples.txtar. In each file lines with "=>" are the calls, and what
// follows a line "=" is the remaining text; without calls it is all of it.
func samples(t *testing.T) []sample {
	data, err := os.ReadFile("testdata/samples.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var list []sample
	for _, f := range txtar.Parse(data).Files {
		text, calls, found := strings.Cut("\n"+strings.TrimSuffix(string(f.Data), "\n"), "\n=> ")
		s := sample{name: f.Name, text: strings.TrimPrefix(text, "\n")}
		if s.rest = s.text; found {
			calls, s.rest, _ = strings.Cut(calls, "\n=\n")
			s.calls = "=> " + calls + "\n"
		}
		list = append(list, s)
	}
	return list
}

func ask(t *testing.T, m *model) (resp *agent.Response, shown string) {
	t.Helper()
	var b strings.Builder
	resp, err := (&unparsed.Provider{Provider: m}).Generate(t.Context(), &agent.Request{Tools: offered}, func(d agent.Delta) { b.WriteString(d.Text) })
	if err != nil {
		t.Fatal(err)
	}
	return resp, b.String()
}

func listed(calls []agent.ToolCall) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString("=> " + c.Name + " " + c.Args + "\n")
	}
	return b.String()
}

// canonical writes the arguments in a list of calls in one form.
func canonical(list string) string {
	var b strings.Builder
	for line := range strings.Lines(list) {
		head, args, _ := strings.Cut(line, "{")
		dec := json.NewDecoder(strings.NewReader("{" + args))
		dec.UseNumber()
		var value any
		if err := dec.Decode(&value); err != nil {
			return list
		}
		text, _ := json.Marshal(value) // it came from JSON
		b.WriteString(head + string(text) + "\n")
	}
	return b.String()
}

func answer(text string) agent.Message {
	return agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}}
}

func TestSamples(t *testing.T) {
	list := samples(t)
	if len(list) < 300 {
		t.Errorf("there are %d samples", len(list))
	}
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			resp, _ := ask(t, &model{message: answer(s.text)})
			if diff := cmp.Diff(canonical(s.calls), canonical(listed(resp.Message.Calls))); diff != "" {
				t.Errorf("calls in %q (-want +got):\n%s", s.text, diff)
			}
			if got := resp.Message.Text(); got != s.rest {
				t.Errorf("text beside the calls is %q, want %q", got, s.rest)
			}
		})
	}
}

// TestDeltas: what is shown is the text beside the calls, whatever the pieces.
func TestDeltas(t *testing.T) {
	for _, s := range samples(t) {
		for _, piece := range []int{1, 3, 17, 1000} {
			_, shown := ask(t, &model{message: answer(s.text), piece: piece})
			if s.calls != "" { // tokens that come before a call are shown
				shown = strings.NewReplacer("<|channel|>analysis<|message|>", "", "<|end|>", "", "<|start|>assistant", "").Replace(shown)
			}
			if strings.TrimSpace(shown) != strings.TrimSpace(s.rest) {
				t.Errorf("%s in pieces of %d: shown is %q, want %q", s.name, piece, shown, s.rest)
			}
		}
	}
}

// TestDeltasAroundCalls: what follows the calls is shown in the end, whatever precedes them: white space
// and tokens, which the answer does not keep, are shown already.
func TestDeltasAroundCalls(t *testing.T) {
	tokens := strings.NewReplacer("<|channel|>analysis<|message|>", "", "<|end|>", "", "<|start|>assistant", "")
	for _, s := range samples(t) {
		for _, before := range []string{"\n", "\n\n", "  ", "\n\nI will look at it.\n", " I will.\n", "<|channel|>analysis<|message|>hm, let us see<|end|>"} {
			text := before + s.text + "\nDone."
			for _, piece := range []int{1, 3, 17, 64, 1000} {
				resp, shown := ask(t, &model{message: answer(text), piece: piece})
				if shown = tokens.Replace(shown); len(resp.Message.Calls) > 0 && strings.TrimSpace(shown) != resp.Message.Text() {
					t.Errorf("%q and %s in pieces of %d: shown is %q, want %q", before, s.name, piece, shown, resp.Message.Text())
				}
			}
		}
	}
}

// TestCutArguments: a call with tokens in place of quotes counts only if its arguments are whole.
func TestCutArguments(t *testing.T) {
	for _, form := range [][3]string{{"<|tool_call>", `<|"|>`, "<tool_call|>"}, {"<start_function_call>", "<escape>", "<end_function_call>"}} {
		for _, args := range []string{"{path:QaQ,content:Qsome textQ}", "{content:QQ,append:true,path:QaQ}", "{content:Q{\"a\": [1]}Q}", "{path:Q}Q}"} {
			begin, args := form[0]+"call:write_file", strings.ReplaceAll(args, "Q", form[1])
			for i := range len(args) + 1 {
				resp, _ := ask(t, &model{message: answer(begin + args[:i])})
				if got := len(resp.Message.Calls) > 0; got != (i == len(args)) {
					t.Errorf("%q has the calls %v", begin+args[:i], resp.Message.Calls)
				}
			}
			if resp, _ := ask(t, &model{message: answer(begin + args + form[2])}); len(resp.Message.Calls) != 1 {
				t.Errorf("%q has the calls %v, want one", begin+args+form[2], resp.Message.Calls)
			}
		}
	}
}

// TestToolsWithoutArguments: a tool counts whatever its schema says of arguments.
func TestToolsWithoutArguments(t *testing.T) {
	for _, schema := range []string{`{"type":"object","properties":{}}`, `{"type":"object"}`, `{}`, ``} {
		for _, text := range []string{`<|tools_prefix|>[{"now": {}}]<|tools_suffix|>`, `<tool_call>{"now":{}}</tool_call>`, `{"now": {}}`,
			`<tool_call>{"name":"now"}</tool_call>`, `[now()]`, "<function=now></function>", "[TOOL_CALLS]now{}"} {
			req := &agent.Request{Tools: []agent.ToolSpec{{Name: "now", Schema: json.RawMessage(schema)}}}
			resp, err := (&unparsed.Provider{Provider: &model{message: answer(text)}}).Generate(t.Context(), req, nil)
			if err != nil || listed(resp.Message.Calls) != "=> now {}\n" {
				t.Errorf("with the schema %q, %q has the calls %v, %v", schema, text, resp.Message.Calls, err)
			}
		}
	}
}

// TestCut: an answer that ends anywhere, as at the limit of its length, is read without harm.
func TestCut(t *testing.T) {
	for _, s := range samples(t) {
		for i := range s.text {
			if i%5 != 0 {
				continue
			}
			resp, _ := ask(t, &model{message: answer(s.text[:i])})
			for _, c := range resp.Message.Calls {
				if !json.Valid([]byte(c.Args)) {
					t.Errorf("%s: the arguments of a call in %q are %s", s.name, s.text[:i], c.Args)
				}
			}
		}
	}
}

// TestUntouched: an answer with calls of the protocol, and one to a request that has no
// tools, is not read.
func TestUntouched(t *testing.T) {
	text := "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>"
	message := answer(text)
	message.Calls = []agent.ToolCall{{ID: "1", Name: "search", Args: "{}"}}
	resp, shown := ask(t, &model{message: message, piece: 7})
	if diff := cmp.Diff(message, resp.Message); diff != "" || shown != text {
		t.Errorf("an answer with calls is changed, shown is %q (-want +got):\n%s", shown, diff)
	}
	for _, req := range []*agent.Request{{}, {Tools: offered, Summary: true}} {
		resp, err := (&unparsed.Provider{Provider: &model{message: answer(text)}}).Generate(t.Context(), req, nil)
		if err != nil || len(resp.Message.Calls) > 0 || resp.Message.Text() != text {
			t.Errorf("the answer to %+v is %+v, %v", req, resp, err)
		}
	}
}

// TestParts: what is not text stays where it is.
func TestParts(t *testing.T) {
	thought := agent.Part{Kind: agent.PartReasoning, Text: "hm", Extra: json.RawMessage("1")}
	message := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{thought,
		agent.Text("Wait.\n<tool_"), agent.Text("call>{\"name\": \"get_time\"}")}}
	resp, _ := ask(t, &model{message: message})
	if diff := cmp.Diff([]agent.Part{thought, agent.Text("Wait.")}, resp.Message.Parts); diff != "" || len(resp.Message.Calls) != 1 {
		t.Errorf("calls %v, parts (-want +got):\n%s", resp.Message.Calls, diff)
	}
	if message.Parts[1].Text != "Wait.\n<tool_" {
		t.Error("the message of the inner provider is changed")
	}
}

// hostile are pieces of text that are costly, many times, for a careless reader.
var hostile = []string{"<function=", "<tool_call>", "{\"name\":", "\n[", "\n{", "\n[get_time(", "<function=get_time>", "```json\n", "```", "`", "\n'", "[TOOL_CALLS]get_time", " ", "> <",
	"\n{\"name\": \"get_time\", \"arguments\": {\"a\":\"", "words and ", "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>", "<|tool_call>get_time{a:<|\"|>",
	"<function=write_file><parameter=path>", "\n[\"", "\n[\"\"\"", "<tool_call>get_time\n<arg_key>a</arg_key><arg_value>", "“", "[TOOL_CALLS][", "\n/* {", "\n[[[[[[[[[[[[[[[[[[[[[[[[", "\n{\"function\":"}

// TestHostile: texts that are costly for a careless reader take no time, whole and in pieces.
// For the longest, time that grows with the square of the length would be many minutes.
func TestHostile(t *testing.T) {
	try := func(piece string, length, size int) {
		text := strings.Repeat(piece, length/len(piece))
		begin := time.Now()
		ask(t, &model{message: answer(text), piece: size})
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%.20q many times, %d bytes in pieces of %d, took %s", piece, length, size, took)
		}
	}
	for _, piece := range hostile {
		try(piece, 5_000, 4)
		try(piece, 10_000, 0)
	}
	for _, piece := range []string{"<function=", "`a", "words and "} {
		try(piece, 300_000, 0)
		try(piece, 300_000, 8)
	}
}

// TestInterrupted: nobody waits for calls to be found after the end of a run.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	used := agent.Usage{Requests: 1, InputTokens: 7}
	m := &model{message: answer("<tool_call>{\"name\": \"get_time\"}"), usage: used}
	resp, err := (&unparsed.Provider{Provider: m}).Generate(ctx, &agent.Request{Tools: offered}, func(agent.Delta) {})
	failed, ok := errors.AsType[*agent.ModelError](err)
	if resp != nil || !ok || !errors.Is(err, context.Canceled) || failed.Usage != used {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestCallAfterBrokenLists: what costs little in a short answer does not keep a call in it from
// being found.
func TestCallAfterBrokenLists(t *testing.T) {
	for _, piece := range []string{"[1, 2\n", "[\"a\n", "{\"a\n"} {
		text := "I saw:\n" + strings.Repeat(piece, 100) + "\n<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>"
		if resp, _ := ask(t, &model{message: answer(text)}); len(resp.Message.Calls) != 1 {
			t.Errorf("after %q 100 times there are the calls %v; want one", piece, resp.Message.Calls)
		}
	}
}
