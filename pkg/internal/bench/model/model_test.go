package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/internal/bench/model"
	"github.com/google/go-cmp/cmp"
)

const tools = `"tools":[{"function":{"name":"bash_other"}},{"function":{"name":"bash_shell"}}]`

func ask(t *testing.T, url, body string) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(text))
}

// joined puts the pieces of a streamed answer together: its text and the
// arguments of its calls.
func joined(t *testing.T, answer string) string {
	t.Helper()
	_, events, _ := strings.Cut(answer, " ")
	var b strings.Builder
	ended := false
	for event := range strings.SplitSeq(strings.TrimSpace(events), "\n\n") {
		data := strings.TrimPrefix(event, "data: ")
		if data == "[DONE]" {
			ended = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string
					Calls   []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, event)
		}
		for _, c := range chunk.Choices {
			b.WriteString(c.Delta.Content + c.Finish)
			for _, call := range c.Delta.Calls {
				b.WriteString(call.Function.Name + call.Function.Arguments)
			}
		}
	}
	if !ended {
		t.Errorf("the stream does not end in [DONE]: %s", answer)
	}
	return b.String()
}

func TestAnswersFollowFromTheConversation(t *testing.T) {
	s := &model.Server{}
	s.Play(model.Script{Turns: 2, Calls: 2, Command: "echo {n}"})
	srv := httptest.NewServer(s)
	defer srv.Close()

	first := joined(t, ask(t, srv.URL, `{"stream":true,`+tools+`,"messages":[{"role":"user","content":"x"}]}`))
	if want := `bash_shell{"command":"echo 0"}bash_shell{"command":"echo 1"}tool_calls`; first != want {
		t.Errorf("the first answer = %s, want %s", first, want)
	}
	second := ask(t, srv.URL, `{`+tools+`,"messages":[{"role":"user"},{"role":"assistant"},{"role":"tool"},{"role":"tool"}]}`)
	for _, want := range []string{`200 `, `{\"command\":\"echo 2\"}`, `{\"command\":\"echo 3\"}`, `"finish_reason":"tool_calls"`} {
		if !strings.Contains(second, want) {
			t.Errorf("the second answer = %s, want %s in it", second, want)
		}
	}
	last := joined(t, ask(t, srv.URL, `{"stream":true,`+tools+`,"messages":[{"role":"assistant"},{"role":"tool"},{"role":"tool"},{"role":"assistant"},{"role":"tool"},{"role":"tool","content":"out 3"}]}`))
	if want := model.Answer + "stop"; last != want {
		t.Errorf("the last answer = %s, want %s", last, want)
	}
	type seen struct {
		Results int
		Last    string
	}
	var got []seen
	for _, r := range s.Requests() {
		if r.Answered.Before(r.Arrived) {
			t.Errorf("request = %+v: answered before it arrived", r)
		}
		got = append(got, seen{r.Results, r.Last})
	}
	want := []seen{{0, ""}, {2, ""}, {4, `"out 3"`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWithoutTheToolNothingIsCalled(t *testing.T) {
	s := &model.Server{}
	s.Play(model.Script{Turns: 1, Calls: 1})
	srv := httptest.NewServer(s)
	defer srv.Close()
	if got, want := ask(t, srv.URL, `{"tools":[{"function":{"name":"x"}}]}`), "400 there is no tool shell among 1\n"; got != want {
		t.Errorf("answer = %q, want %q", got, want)
	}
}

func TestTogetherWaitsForAll(t *testing.T) {
	const n = 3
	s := &model.Server{}
	s.Play(model.Script{Together: n})
	srv := httptest.NewServer(s)
	defer srv.Close()
	var wg sync.WaitGroup
	for range 2 * n { // two rounds
		wg.Go(func() { ask(t, srv.URL, `{"messages":[]}`) })
	}
	wg.Wait()
	requests := s.Requests()
	if len(requests) != 2*n {
		t.Fatalf("%d requests, want %d", len(requests), 2*n)
	}
	arrived := 0
	for _, r := range requests {
		if !r.Arrived.After(requests[0].Answered) {
			arrived++
		}
	}
	if arrived < n {
		t.Errorf("%d requests had arrived when the first was answered, want at least %d", arrived, n)
	}
}
