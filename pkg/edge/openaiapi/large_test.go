package openaiapi_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// allocated returns how many bytes a request allocates, with its run.
func allocated(t *testing.T, path, body string) (bytes uint64, status int, answer string) {
	t.Helper()
	s := local(t, says("hello"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, answer = s.do("POST", path, body)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, status, answer
}

// The memory that a request takes grows with its length, and not with the square of it.
func TestLongConversations(t *testing.T) {
	list := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ",")
	}
	turn := func(i int) string {
		return fmt.Sprintf(`{"role":%q,"content":"hi"}`, []string{"user", "assistant"}[i%2])
	}
	for _, c := range []struct {
		name, path string
		body       func(n int) string
	}{
		{"messages of the user", "chat/completions", func(n int) string {
			return `"messages":[` + list(n, func(int) string { return question }) + `]`
		}},
		{"turns", "chat/completions", func(n int) string { return `"messages":[` + list(n, turn) + `,` + question + `]` }},
		{"instructions", "chat/completions", func(n int) string {
			return `"messages":[` + list(n, func(int) string { return `{"role":"system","content":"hi"}` }) + `,` + question + `]`
		}},
		{"calls", "chat/completions", func(n int) string {
			call := func(i int) string { return fmt.Sprintf(`{"id":"c%d","function":{"name":"a","arguments":"{}"}}`, i) }
			answer := func(i int) string { return result(fmt.Sprint("c", n-1-i), "x") }
			return `"messages":[` + question + `,{"role":"assistant","tool_calls":[` + list(n, call) + `]},` + list(n, answer) + `]`
		}},
		{"items", "responses", func(n int) string { return `"input":[` + list(n, turn) + `,` + question + `]` }},
		{"parts", "responses", func(n int) string {
			return `"input":[{"role":"user","content":[` + list(n, func(int) string { return `{"type":"input_text","text":"hi"}` }) + `]}]`
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const few, many = 500, 4000
			var bytes [2]uint64
			for i, n := range []int{few, many} {
				var status int
				var answer string
				if bytes[i], status, answer = allocated(t, "/v1/"+c.path, `{"model":"helper",`+c.body(n)+`}`); status != 200 {
					t.Fatalf("%d: status %d: %s", n, status, answer)
				}
			}
			if growth := float64(bytes[1]) / float64(bytes[0]); growth > 2*many/few {
				t.Errorf("%d allocates %d bytes and %d allocates %d: %.1f times as much", few, bytes[0], many, bytes[1], growth)
			}
		})
	}
}

// A list of tiny elements is refused before it takes many times the memory of the request.
func TestListsOfTinyElements(t *testing.T) {
	const size = 1 << 18
	for _, c := range []struct{ name, path, before, after string }{
		{"messages", "chat/completions", `"messages":[`, `]`},
		{"content", "chat/completions", `"messages":[{"role":"user","content":[`, `]}]`},
		{"calls", "chat/completions", `"messages":[` + question + `,{"role":"assistant","tool_calls":[`, `]}]`},
		{"tools", "chat/completions", `"messages":[` + question + `],"tools":[`, `]`},
		{"input", "responses", `"input":[`, `]`},
		{"content of input", "responses", `"input":[{"role":"user","content":[`, `]}]`},
		{"output of a call", "responses", `"input":[{"type":"function_call_output","call_id":"a","output":[`, `]}]`},
		{"modalities", "chat/completions", `"messages":[` + question + `],"modalities":[`, `]`},
		{"stop", "chat/completions", `"messages":[` + question + `],"stop":[`, `]`},
		{"metadata", "responses", `"input":"hi","metadata":[`, `]`},
	} {
		for _, element := range []string{`{}`, `null`, `{"type":"text","text":"a"}`} {
			t.Run(c.name+" "+element, func(t *testing.T) {
				body := `{"model":"helper",` + c.before + strings.Repeat(element+",", size/(len(element)+1)) + element + c.after + `}`
				bytes, status, answer := allocated(t, "/v1/"+c.path, body)
				if status >= 500 || bytes > 80<<20 {
					t.Errorf("%d bytes allocate %d, status %d: %.200s", len(body), bytes, status, answer)
				}
			})
		}
	}
}

// The text of many instructions is that of the calling program, in their order.
func TestManyInstructions(t *testing.T) {
	s := local(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) { return pieces(seen(req), say), nil }))
	status, body := s.do("POST", "/v1/chat/completions", conversation("", `{"role":"system","content":"a"}`, `{"role":"system","content":"b"}`, question))
	if want := "//Instructions of the calling program:/a //Instructions of the calling program:/b"; status != 200 || !strings.Contains(body, want) {
		t.Errorf("status %d: %s, want %s", status, body, want)
	}
}
