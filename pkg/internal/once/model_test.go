//go:build linux

package once

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// A call is one in the conversation that a program sends to its model.
type call struct {
	id, text, result string // text is the name and the arguments
	ended            bool
}

// decide returns the next call of the model, which knows nothing but the conversation: the action
// after the last one that the conversation shows as done. When the result of an action does not
// say that it took effect, it looks before it makes the action again; a hasty one looks only when
// the result says that this is not known, and takes any other result as a failure. told are such
// results.
func (k task) decide(calls []call, hasty bool) (next *action, check bool, told []string) {
	i, asked := 0, false
	for _, c := range calls {
		switch {
		case i == len(k.actions) || !c.ended:
		case strings.Contains(c.text, checkTool):
			m := times.FindStringSubmatch(c.result)
			if m == nil {
				continue // it looks again
			}
			asked = false
			want := 0
			n, _ := strconv.Atoi(m[1]) // digits
			for _, a := range k.actions[:i+1] {
				if a.String() == k.actions[i].String() {
					want++
				}
			}
			if n >= want {
				i++
			}
		case strings.Contains(c.result, marker):
			i, asked = i+1, false
		default:
			asked = !hasty || unknown.MatchString(c.result)
			told = append(told, c.result)
		}
	}
	if i == len(k.actions) {
		return nil, false, told
	}
	return &k.actions[i], asked, told
}

var unknown = regexp.MustCompile(`(?i)not known|unknown|may have|uncertain`)

var times = regexp.MustCompile(`it took effect (\d+) times`)

// conversation returns the calls of a request of chat completions, responses or Gemini.
func conversation(body []byte) (calls []call) {
	var r struct {
		Messages []struct {
			Calls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
			CallID  string `json:"tool_call_id"`
			Content json.RawMessage
		}
		Input []struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Output                json.RawMessage
		}
		Contents []struct {
			Parts []struct {
				Call *struct {
					ID, Name string
					Args     json.RawMessage
				} `json:"functionCall"`
				Response *struct {
					ID, Name string
					Response json.RawMessage
				} `json:"functionResponse"`
			}
		}
	}
	_ = json.Unmarshal(body, &r) // of another shape: no calls
	end := func(id string, result []byte) {
		for i := range calls {
			if calls[i].id == id && !calls[i].ended {
				calls[i].result, calls[i].ended = string(result), true
				return
			}
		}
	}
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			calls = append(calls, call{id: c.ID, text: c.Function.Name + " " + c.Function.Arguments})
		}
		if m.CallID != "" {
			end(m.CallID, m.Content)
		}
	}
	for _, m := range r.Input {
		switch m.Type {
		case "function_call":
			calls = append(calls, call{id: m.CallID, text: m.Name + " " + m.Arguments})
		case "function_call_output":
			end(m.CallID, m.Output)
		}
	}
	for _, m := range r.Contents {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				calls = append(calls, call{id: p.Call.ID, text: p.Call.Name + " " + string(p.Call.Args)})
			case p.Response != nil:
				end(p.Response.ID, p.Response.Response)
			}
		}
	}
	return calls
}

// ServeHTTP answers as a model, and takes the reports of the actions.
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if point, ok := strings.CutPrefix(r.URL.Path, "/tool/"); ok {
		w.event(point)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		return
	}
	calls := conversation(body)
	next, check, told := w.task.decide(calls, w.hasty)
	// A request for a title, say, has no tools.
	work := strings.Contains(string(body), `"`+w.program.shell+`"`) || w.program.shell == ""
	if work && w.event("request") {
		panic(http.ErrAbortHandler)
	}
	name, args := "", ""
	if work && next != nil {
		name, args = w.program.call(w, *next, check)
	}
	w.note(work, next == nil, told, len(body))
	out.Header().Set("Content-Type", "text/event-stream")
	answer(out, r.URL.Path, fmt.Sprintf("c%d", len(calls)+1), name, args, "All is done.")
	if f, ok := out.(http.Flusher); ok {
		f.Flush()
	}
	if work {
		w.event("answer")
	}
}

// answer writes a call, or a text if there is no name, in the protocol of the path.
func answer(out io.Writer, path, id, name, args, text string) {
	quoted, _ := json.Marshal(args) // strings always encode
	switch {
	case strings.HasSuffix(path, "/responses"):
		item := fmt.Sprintf(`{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":%q}]}`, text)
		if name != "" {
			item = fmt.Sprintf(`{"type":"function_call","id":"f%s","call_id":%q,"name":%q,"arguments":%s}`, id, id, name, quoted)
		}
		fmt.Fprint(out, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")
		fmt.Fprintf(out, "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":%s}\n\n", item)
		fmt.Fprintf(out, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[%s],\"usage\":{\"input_tokens\":1,\"output_tokens\":1,\"total_tokens\":2}}}\n\n", item)
	case strings.Contains(path, "enerateContent"):
		part := fmt.Sprintf(`{"text":%q}`, text)
		if name != "" {
			part = fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s}}`, id, name, args)
		}
		fmt.Fprintf(out, "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\",\"parts\":[%s]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":1,\"candidatesTokenCount\":1,\"totalTokenCount\":2}}\n\n", part)
	default:
		delta, reason := fmt.Sprintf(`{"role":"assistant","content":%q}`, text), "stop"
		if name != "" {
			delta, reason = fmt.Sprintf(`{"role":"assistant","tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]}`, id, name, quoted), "tool_calls"
		}
		chunk := "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n"
		fmt.Fprintf(out, chunk, delta, "null")
		fmt.Fprintf(out, chunk, "{}", strconv.Quote(reason))
		fmt.Fprint(out, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}\n\ndata: [DONE]\n\n")
	}
}
