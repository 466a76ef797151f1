package openaiapi_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

// A compacted is the answer to a request to shorten a conversation.
type compacted struct {
	ID, Object string
	Output     []map[string]any
	Usage      struct {
		Input int `json:"input_tokens"`
	}
	Agents struct {
		Session  string
		Warnings []string
		Rebuilt  bool
	}
}

func (s *server) compact(t *testing.T, more string) (c compacted) {
	t.Helper()
	status, body, _ := s.post(t, "/v1/responses/compact", `{"model":"helper",`+more+`}`)
	if err := json.Unmarshal([]byte(body), &c); err != nil || status != 200 || c.Object != "response.compaction" || len(c.Output) != 1 || c.Output[0]["type"] != "compaction" {
		t.Fatalf("%d %s", status, body)
	}
	return c
}

// continued returns what the model sees when c and a message follow each other.
func (s *server) continued(t *testing.T, c compacted, more string) string {
	t.Helper()
	item, _ := json.Marshal(c.Output[0])
	status, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":[`+string(item)+`,`+more+`]}`)
	var r struct {
		Output []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return r.Output[0].Content[0].Text
}

// sums sums a conversation up, and otherwise says what it sees.
var sums = model(func(req *agent.Request, say func(string)) (agent.Message, error) {
	if req.Summary {
		return agent.Message{Parts: []agent.Part{agent.Text("they spoke of " + strings.Repeat("fruit ", 3))}}, nil
	}
	return pieces(seen(req), say), nil
})

const fruits = `"input":[{"role":"user","content":"apples"},{"role":"assistant","content":"red"},{"role":"user","content":"pears"},
	{"role":"assistant","content":"green"},{"role":"user","content":"plums"},{"role":"assistant","content":"blue"}]`

// A conversation that was shortened can be continued, by any server, and shortened again.
func TestCompactThenContinue(t *testing.T) {
	s := serve(t, sums)
	c := s.compact(t, fruits)
	if c.Usage.Input != 100 || c.Agents.Session == "" || c.Agents.Rebuilt || len(c.Agents.Warnings) > 0 {
		t.Errorf("compacted = %+v", c)
	}
	const summary = "user: [The conversation so far was shortened.]/It began with:/apples// Summary:/they spoke of fruit fruit fruit"
	want := summary + "\nassistant: blue\nuser: and cherries?"
	other := serve(t, sums)
	for name, s := range map[string]*server{"this server": s, "another": other} {
		if diff := cmp.Diff(want, s.continued(t, c, `{"role":"user","content":"and cherries?"}`)); diff != "" {
			t.Errorf("%s: the model saw (-want +got):\n%s", name, diff)
		}
	}
	item, _ := json.Marshal(c.Output[0])
	again := s.compact(t, `"input":[`+string(item)+`,{"role":"user","content":"cherries"},{"role":"assistant","content":"red"},{"role":"user","content":"figs"}]`)
	if got := s.continued(t, again, `{"role":"user","content":"and now?"}`); !strings.HasPrefix(got, summary+" // figs") || !strings.HasSuffix(got, "and now?") {
		t.Errorf("shortened twice, the model saw:\n%s", got)
	}
}

// What is too short stays as it is, whatever kinds of items it has.
func TestCompactKeepsWhatIsShort(t *testing.T) {
	s := serve(t, sums)
	image := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("picture"))
	c := s.compact(t, `"input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"`+image+`"}]},
		{"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"city\":\"Oslo\"}"},{"type":"function_call_output","call_id":"c1","output":"sun"}]`)
	if len(c.Agents.Warnings) != 1 || !strings.Contains(c.Agents.Warnings[0], "too short") {
		t.Errorf("warnings = %q", c.Agents.Warnings)
	}
	want := "user: look <image/png  picture>\nassistant: weather{\"city\":\"Oslo\"}\ntool: weather=sun\nuser: so?"
	if diff := cmp.Diff(want, s.continued(t, c, `{"role":"user","content":"so?"}`)); diff != "" {
		t.Errorf("the model saw (-want +got):\n%s", diff)
	}
}

// A stored response is shortened with what only the server knows of it. A run that waits for
// results of the client is left alone.
func TestCompactAStoredResponse(t *testing.T) {
	s := serve(t, model(func(req *agent.Request, say func(string)) (agent.Message, error) {
		if req.Summary {
			return agent.Message{Parts: []agent.Part{agent.Text(seen(req))}}, nil
		}
		return traveller(req, say)
	}), clock)
	_, body, _ := s.post(t, "/v1/responses", `{"model":"helper","input":"Where is it warm?","tools":[{"type":"function","name":"weather"}]}`)
	var first event
	if err := json.Unmarshal([]byte(body), &first.Response); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, it := range first.Response.Output {
		if it.Type == "function_call" {
			results = append(results, `{"type":"function_call_output","call_id":"`+it.CallID+`","output":"sun"}`)
		}
	}
	input := `"previous_response_id":"` + first.Response.ID + `","input":[` + strings.Join(results, ",") + `]`
	c := s.compact(t, input)
	if len(s.runs) != 2 {
		t.Fatalf("%d runs, want that of the client and one that shortens", len(s.runs))
	}
	if _, body, _ := s.post(t, "/v1/responses", `{"model":"helper","tools":[{"type":"function","name":"weather"}],`+input+`}`); !strings.Contains(body, "weather=sun weather=sun") || len(s.runs) != 2 {
		t.Errorf("%d runs; the run that waited: %s", len(s.runs), body)
	}
	s.agents[0].Provider = echo
	if got := s.continued(t, c, `{"role":"user","content":"Thanks."}`); !strings.Contains(got, "clock=noon") || !strings.Contains(got, "\ntool: weather=sun weather=sun\nuser: Thanks.") {
		t.Errorf("the model saw:\n%s", got)
	}
	if status, body, _ := s.post(t, "/v1/responses/compact", `{"model":"helper","previous_response_id":"`+c.ID+`"}`); status != 400 || !strings.Contains(body, "previous_response_not_found") {
		t.Errorf("the id of a compaction: %d %s", status, body)
	}
}

func TestCompactIsRefused(t *testing.T) {
	s := serve(t, sums)
	for name, tt := range map[string]struct{ body, code string }{
		"no model":     {`{"input":"x"}`, "missing_required_parameter"},
		"no agent":     {`{"model":"x","input":"x"}`, "model_not_found"},
		"no input":     {`{"model":"helper"}`, "missing_required_parameter"},
		"nothing":      {`{"model":"helper","input":[]}`, "missing_required_parameter"},
		"an open call": {`{"model":"helper","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]}`, "invalid_value"},
	} {
		if status, body, _ := s.post(t, "/v1/responses/compact", tt.body); status < 400 || status > 404 || !strings.Contains(body, `"code":"`+tt.code+`"`) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	s.agents[0].Provider = model(func(*agent.Request, func(string)) (agent.Message, error) {
		return agent.Message{}, errors.New("no route")
	})
	if status, body, _ := s.post(t, "/v1/responses/compact", `{"model":"helper",`+fruits+`}`); status != 502 || !strings.Contains(body, "no route") {
		t.Errorf("without a summary: %d %s", status, body)
	}
}

// TestCompactionItemsAreNotTrusted: what a client made up is refused like other input.
func TestCompactionItemsAreNotTrusted(t *testing.T) {
	s := serve(t, sums)
	for name, tt := range map[string]struct{ content, code string }{
		"of another server": {"gAAAAABpM0Yj", "invalid_value"},
		"not base64":        {"agents1.%%", "invalid_value"},
		"not JSON":          {items(`[{"role":`), "invalid_value"},
		"no list":           {items(`{}`), "invalid_type"},
		"no item":           {items(`[1]`), "invalid_type"},
		"an unknown item":   {items(`[{"type":"web_search_call"}]`), "unsupported_parameter"},
		"another one":       {items(`[{"type":"compaction","encrypted_content":"` + items(`[{"role":"user","content":"x"}]`) + `"}]`), "unsupported_parameter"},
		"an address":        {items(`[{"role":"user","content":[{"type":"input_image","image_url":"http://169.254.169.254/"}]}]`), "unsupported_parameter"},
		"a lone result":     {items(`[{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":"y"}]`), "invalid_value"},
		"a call at first":   {items(`[{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]`), "invalid_value"},
		"too many":          {items(`[` + strings.Repeat(`{"type":"reasoning"},`, 100_000) + `{"role":"user","content":"x"}]`), "too_many_items"},
	} {
		for _, path := range []string{"/v1/responses", "/v1/responses/compact"} {
			if status, body, _ := s.post(t, path, `{"model":"helper","input":[{"type":"compaction","encrypted_content":"`+tt.content+`"},{"role":"user","content":"hi"}]}`); status != 400 || !strings.Contains(body, `"code":"`+tt.code+`"`) {
				t.Errorf("%s, %s: %d %.500s", name, path, status, body)
			}
		}
	}
	if len(s.runs) != 0 {
		t.Errorf("%d runs began", len(s.runs))
	}
}

// items is a content as the server makes it.
func items(list string) string {
	return "agents1." + base64.StdEncoding.EncodeToString([]byte(list))
}

// An Idempotency-Key names one request: the same body at another path is another one.
func TestAKeyIsOfOnePath(t *testing.T) {
	paths := []string{"/v1/responses", "/v1/responses/compact"}
	for i := range paths {
		s := serve(t, sums)
		for j, want := range []int{http.StatusOK, http.StatusBadRequest} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+paths[(i+j)%2], strings.NewReader(`{"model":"helper","input":"apples"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "k")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: status %d, want %d", r.URL.Path, resp.StatusCode, want)
			}
		}
	}
}

// The item is larger than the media in it. It must fit into the next request.
func TestACompactionFitsIntoARequest(t *testing.T) {
	s := serve(t, sums)
	s.handler.MaxBody = 10_000
	status, body, _ := s.post(t, "/v1/responses/compact", `{"model":"helper","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,`+strings.Repeat("AAAA", 2000)+`"}]}]}`)
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %.200s", status, body)
	}
}
