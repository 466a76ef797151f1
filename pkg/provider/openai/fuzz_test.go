package openai

import (
	"bytes"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// An outcome is the result of reading an answer.
type outcome struct {
	Response *agent.Response
	Error    string
	Text     string
	Thought  string
}

func readAll(r io.Reader) outcome {
	var out outcome
	a := &answer{emit: func(d agent.Delta) {
		if d.Kind == agent.DeltaText {
			out.Text += d.Text
		} else {
			out.Thought += d.Text
		}
	}}
	resp, err := modelhttp.Read(r, a, func() {})
	out.Response = resp
	if err != nil {
		out.Error = err.Error()
		var e *agent.ModelError
		if !errors.As(err, &e) {
			out.Error = "not a ModelError: " + out.Error
		}
	}
	return out
}

// A stutter reads in pieces of n bytes and returns its error with the last.
type stutter struct {
	data []byte
	n    int
}

func (s *stutter) Read(p []byte) (int, error) {
	n := copy(p, s.data[:min(s.n, len(s.data))])
	s.data = s.data[n:]
	if len(s.data) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Reading ends for any input, with an answer or a *ModelError, and the sizes of
// the reads make no difference.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		deltas(`{"content":"Hello"}`) + stop + "data: [DONE]\n\n",
		deltas("{\"content\":\"\xc3\"}", "{\"content\":\"\xbc\\ud83d\"}", `{"reasoning":"\ude00","refusal":"x"}`) + stop,
		deltas(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{\"a\":"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`) + stop,
		deltas(`{"tool_calls":[{"function":{"name":"t","arguments":{"a":1}}},{"name":"u"}]}`, `{"function_call":{"name":"v"}}`) + "data: [DONE]\n\n",
		deltas(`{"reasoning_details":[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b","signature":"s"},7]}`) + stop,
		`{"choices":[{"message":{"content":[{"type":"text","text":"Hi"},"!"]},"finish_reason":"length"}],"usage":{"prompt_tokens":"3"}}`,
		"\uFEFF: comment\r\n\r\ndata: {\"error\":null,\ndata:\"choices\":[]}\r\n\r\n",
		`[{"error":{"code":400,"message":"no","metadata":{"raw":"x"}}}]`,
		`{"detail":[{"loc":["a",1],"msg":"m"}]}`,
		"<html><script>x</script><p>no &amp; no",
		"data: [1,2",
		"event: x\n\n\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		n = min(max(n, 1), 1<<20)
		want := readAll(bytes.NewReader(data))
		for name, r := range map[string]io.Reader{
			"byte by byte":           iotest.OneByteReader(bytes.NewReader(data)),
			"in pieces":              &stutter{data, n},
			"with the end in a read": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			if diff := cmp.Diff(want, readAll(r)); diff != "" {
				t.Errorf("%s it is something else (-at once +%s):\n%s", name, name, diff)
			}
		}
		if (want.Response == nil) == (want.Error == "") || strings.HasPrefix(want.Error, "not a ModelError") {
			t.Errorf("response %+v, error %q", want.Response, want.Error)
		}
		if !utf8.ValidString(want.Text) || !utf8.ValidString(want.Thought) || !utf8.ValidString(want.Error) {
			t.Errorf("not valid UTF-8: %+v", want)
		}
		if r := want.Response; r != nil && r.Message.Text() != want.Text {
			t.Errorf("text = %q, shown was %q", r.Message.Text(), want.Text)
		}
	})
}

// BenchmarkBody encodes the request of the hundredth turn of a run, 290 kB.
func BenchmarkBody(b *testing.B) {
	req := turns(100)
	p := &Provider{Settings: modelhttp.Settings{Model: "m"}}
	b.ReportAllocs()
	for b.Loop() {
		body, err := p.body(factsOf(OpenAI), req)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

func turns(n int) *agent.Request {
	req := &agent.Request{System: "s", Messages: []agent.Message{agent.UserText("go")}}
	for range 20 {
		req.Tools = append(req.Tools, agent.ToolSpec{Name: "grep", Description: "finds", Schema: []byte(schema)})
	}
	output := strings.Repeat("some \"tool\" output line\n", 100)
	for range n {
		req.Messages = append(req.Messages,
			agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call_1", Name: "grep", Args: `{"a":"b","c":[1,2,3]}`}}},
			agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: "call_1", Name: "grep", Parts: []agent.Part{agent.Text(output)}}}})
	}
	return req
}

// BenchmarkChunk reads a chunk of a stream.
func BenchmarkChunk(b *testing.B) {
	chunk := []byte(`{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1741569952,"model":"gpt-5","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}`)
	a := &answer{emit: func(agent.Delta) {}}
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Add(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTurn makes the hundredth request of a run and reads the answer, over
// loopback.
func BenchmarkTurn(b *testing.B) {
	p := answering(b, "text/event-stream", strings.Repeat(deltas(`{"content":" word"}`), 500)+stop+"data: [DONE]\n\n")
	req := turns(100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Generate(b.Context(), req, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The requests of a long run take little memory: one body, encoded at once, and
// at most a copy of each call's arguments. The race detector drops a quarter of what
// sync.Pool keeps, at random, and encoding/json allocates it again.
func TestEncodingTakesFewAllocations(t *testing.T) {
	limit := 90.0
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		limit = 100 // the race detector allocates
	}
	allocs := func(n int) float64 {
		req := turns(n)
		p := &Provider{Settings: modelhttp.Settings{Model: "m"}}
		return testing.AllocsPerRun(5, func() {
			if _, err := p.body(factsOf(OpenAI), req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(10), allocs(100); many > few+limit {
		t.Errorf("%v allocations for 10 turns, %v for 100", few, many)
	}
}
