package openaiapi

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A ProgramCall is a request of a program that wants a model, not an agent: the protocols read
// into the request of a model, and its answer written in the protocol.
type ProgramCall struct {
	// Request is that for a model of another protocol. Its error is Refused.
	Request *agent.Request
	// Refused says why the request cannot be translated; nil if it can. With Invalid, it is not a
	// JSON object, or has too many values.
	Refused error
	Invalid bool

	protocol string
	req      *request
	messages *messagesRequest
	generate *generateRequest
	model    string // of generate, whose body does not name it
}

// Generate says what the address of a request of ProtocolGenerate does: the model, and whether the
// answer is streamed.
func (c *ProgramCall) Generate(model string, stream bool) {
	c.model, c.generate.Stream = model, stream
}

// ParseProgram reads the body of a request in one of the protocols of agent.Pass.
func ParseProgram(protocol string, body []byte) *ProgramCall {
	c := &ProgramCall{protocol: protocol, req: newRequest()}
	n := &items{left: func() error { return nil }}
	var object map[string]json.RawMessage
	err := jsondoc.Measure(body)
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	var req interface {
		model(n *items) (*agent.Request, error)
	} = c.req
	switch protocol {
	case agent.ProtocolAnthropic:
		c.messages = &messagesRequest{}
		req = c.messages
	case agent.ProtocolGenerate:
		c.generate = &generateRequest{}
		req = c.generate
	case agent.ProtocolResponses:
		c.req.api = responsesAPI
	}
	if c.Invalid = err != nil; !c.Invalid {
		err = json.Unmarshal(body, req)
	}
	if c.Refused = decodeError(err, 0); c.Refused == nil {
		c.Request, c.Refused = req.model(n)
	}
	if c.Refused != nil {
		c.Request = &agent.Request{Messages: []agent.Message{agent.UserText(string(body))}} // its size counts
	}
	return c
}

// model returns the request of a model. Settings of the model, such as the temperature, are those
// of the agent file.
func (r *request) model(n *items) (*agent.Request, error) {
	stops, err := r.stops(n)
	switch {
	case err != nil:
		return nil, err
	case r.Previous != "":
		return nil, unsupported("previous_response_id", "responses are not stored; send the whole input")
	case len(stops) > 0:
		return nil, unsupported("stop", "it cannot be translated for the lent model")
	}
	if err := r.refused(); err != nil {
		return nil, err
	}
	t := &thread{forModel: true}
	if err := r.thread(n, t); err != nil {
		return nil, err
	}
	out := &agent.Request{Messages: t.messages}
	var forced []agent.ToolSpec
	if out.Tools, forced, err = toolSpecs(n, r.Tools, r.ToolChoice); err != nil {
		return nil, err
	}
	if len(forced) > 0 {
		return nil, unsupported("tool_choice", "a call cannot be required of the lent model; want auto or none")
	}
	out.System = strings.Join(t.prompt, "\n\n")
	out.Output, err = r.schema()
	return out, err
}

// Prompt says in short what the program asks.
func (c *ProgramCall) Prompt() string {
	const most = 2000
	last := c.Request.Messages[len(c.Request.Messages)-1]
	text := last.Text()
	for _, r := range last.Results {
		text += r.Text()
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(cmp.Or(text, "["+c.protocol+"]"), "\uFFFD")
}

// Answer asks a model and writes its answer.
func (c *ProgramCall) Answer(w http.ResponseWriter, ask func(delta func(agent.Delta)) (*agent.Response, error)) {
	s := &stream{w: w, on: c.req.Stream}
	var out output
	switch id := rand.Text(); c.protocol {
	case agent.ProtocolAnthropic:
		s.on = c.messages.Stream
		out = &messagesOutput{stream: s, req: c.messages, id: "msg_" + id}
	case agent.ProtocolGenerate:
		s.on = c.generate.Stream
		out = &generateOutput{stream: s, model: c.model, id: id}
	case agent.ProtocolResponses:
		out = &responseOutput{stream: s, req: c.req, id: "resp_" + id}
	default:
		out = &chatOutput{stream: s, req: c.req, id: "chatcmpl-" + id}
	}
	shown, again := "", false
	resp, err := ask(func(d agent.Delta) {
		switch {
		case d.Kind == agent.DeltaRetry:
			again, shown = shown != "" || again, ""
		case d.Kind == agent.DeltaText && s.on && d.Text != "":
			out.text(d.Text, again)
			again, shown = false, shown+d.Text
		}
	})
	if err != nil {
		out.fail(err)
		return
	}
	r := c.reply(resp)
	if rest, ok := strings.CutPrefix(r.text, shown); ok && rest != "" {
		out.text(rest, again)
	}
	out.turn()
	out.finish(r)
}

// reply returns the answer of a model as that of a run.
func (c *ProgramCall) reply(resp *agent.Response) *reply {
	r := &reply{text: resp.Message.Text(), usage: resp.Usage}
	calls := resp.Message.Calls
	single := !c.req.Parallel || c.messages != nil && c.messages.Choice.Single
	if single && len(calls) > 1 {
		calls = calls[:1]
	}
	for _, k := range calls {
		r.calls = append(r.calls, call{id: cmp.Or(k.ID, "call_"+rand.Text()), name: k.Name, args: cmp.Or(k.Args, "{}")})
	}
	switch resp.Finish {
	case agent.FinishLength:
		r.short = cutShort
	case agent.FinishContentFilter:
		r.short = withheld
	}
	return r
}

// ProgramError returns an error with the status that a program gets, and why.
func ProgramError(status int, why string) error {
	e := &apiError{status: status, Type: "invalid_request_error", Text: why, final: status != http.StatusTooManyRequests && status < 500}
	code := ""
	switch {
	case status == http.StatusPaymentRequired:
		e.Type, code = "insufficient_quota", "insufficient_quota"
	case status == http.StatusTooManyRequests:
		e.Type, code, e.retry = "rate_limit_error", "rate_limit_exceeded", time.Second
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusNotFound:
		code = "model_not_found"
	case status >= 500:
		e.Type = "server_error"
	}
	e.Code = text(code)
	return e
}

// WriteProgramError writes an error in the form of a protocol.
func WriteProgramError(w http.ResponseWriter, protocol string, err error) {
	form := errorObject
	switch protocol {
	case agent.ProtocolAnthropic:
		form = messagesError
	case agent.ProtocolGenerate:
		form = generateError
	}
	writeErrorAs(w, err, form)
}

// ProgramModels is the list of models in the form of both APIs.
func ProgramModels(w http.ResponseWriter, names []string) {
	list := []object{}
	for _, name := range names {
		list = append(list, object{"id": name, "object": "model", "type": "model", "display_name": name, "created": 0, "created_at": "1970-01-01T00:00:00Z", "owned_by": "agents"})
	}
	whole := object{"object": "list", "data": list, "has_more": false}
	if len(names) > 0 {
		whole["first_id"], whole["last_id"] = names[0], names[len(names)-1]
	}
	writeJSON(w, http.StatusOK, whole)
}
