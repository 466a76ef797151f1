package responses

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

// An outcome is the result of reading an answer.
type outcome struct {
	Response *agent.Response
	Error    string
	Text     string
}

func outcomeOf(t *testing.T, r io.Reader) (out outcome) {
	a := &answer{host: "h", emit: func(d agent.Delta) { out.Text += d.Text }}
	resp, err := modelhttp.Read(r, a, func() { a.State() })
	if out.Response = resp; err != nil {
		out.Error = modeltest.ModelError(t, err).Error()
	}
	return out
}

// Reading ends for any input, with an answer or a *ModelError, and the sizes of the reads
// make no difference. What was read can be sent back.
func FuzzStream(f *testing.F) {
	f.Add([]byte(stream(f)))
	for _, seed := range []string{
		modeltest.Events(`{"type":"response.output_text.delta","output_index":3,"delta":"\ud83d"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"x"}`) + "data: [DONE]\n\n",
		modeltest.Events("{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"\xc3{\"}", `{"type":"response.output_item.done","output_index":0,"item":7}`, `{"type":"response.incomplete"}`),
		`{"output":[{"type":"message","content":"Hi"},{"type":"x"},null,{"type":"reasoning","content":[{"text":"a"}]}],"usage":{"input_tokens":"3","cost":1}}`,
		`{"type":"error","error":"x"}`,
		`{"type":"response.failed","response":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := outcomeOf(t, bytes.NewReader(data))
		if diff := cmp.Diff(want, outcomeOf(t, iotest.OneByteReader(bytes.NewReader(data)))); diff != "" {
			t.Errorf("byte by byte it is something else (-at once +byte by byte):\n%s", diff)
		}
		if (want.Response == nil) == (want.Error == "") || !utf8.ValidString(want.Text) || !utf8.ValidString(want.Error) {
			t.Errorf("response %+v, error %q, text %q", want.Response, want.Error, want.Text)
		}
		if want.Response != nil {
			bodyOf(t, &Provider{}, "h", &agent.Request{Messages: []agent.Message{want.Response.Message}})
		}
	})
}
