package a2aapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/a2aclient"
)

// startOf makes the parts of a message the arguments of an agent: text and data form the
// prompt, files follow it. An agent with other arguments takes them as one data part.
func startOf(spec agent.ToolSpec, parts a2a.ContentParts) (agent.Start, error) {
	start := agent.Start{}
	var texts []string
	var data []json.RawMessage
	for _, p := range parts {
		switch c := p.Content.(type) {
		case a2a.Text:
			texts = append(texts, string(c))
		case a2a.Data:
			raw, err := json.Marshal(p.Data())
			if err != nil {
				return start, fmt.Errorf("%w: a data part: %w", a2a.ErrInvalidParams, err)
			}
			data = append(data, raw)
		case a2a.Raw:
			start.Media = append(start.Media, agent.Part{Kind: agent.PartMedia, MIME: cmp.Or(p.MediaType, "application/octet-stream"), Data: c, Name: p.Filename})
		default:
			return start, fmt.Errorf("%w: send files in the message, not by URL", a2a.ErrUnsupportedContentType)
		}
	}
	if len(data) == 1 && len(texts) == 0 && !promptOnly(spec) {
		start.Args = data[0]
		return start, nil
	}
	for _, raw := range data {
		texts = append(texts, string(raw))
	}
	if len(texts) > 0 {
		start.Args, _ = json.Marshal(map[string]string{"prompt": strings.Join(texts, "\n\n")}) // a map of strings always encodes
	}
	if len(texts)+len(start.Media) == 0 {
		return start, fmt.Errorf("%w: the message is empty", a2a.ErrInvalidParams)
	}
	return start, nil
}

// question is a question as a message. Its metadata has what a program needs to show it.
func question(ec *a2asrv.ExecutorContext, e *agent.Event) *a2a.Message {
	m := says(ec, e.Text)
	m.Metadata = plain(struct {
		What    string          `json:"what"`
		Choices []string        `json:"choices,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"`
	}{e.What, e.Choices, e.Schema})
	return m
}

// plain makes v, an object in JSON, of the types that the library can copy.
func plain(v any) (m map[string]any) {
	if raw, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(raw, &m) // what was encoded can be decoded
	}
	return m
}

// answerOf makes a message the answer to a question: data unchanged, text as a string. If the
// question has a schema, a text that is JSON is decoded. The answer to a form accepts it; any
// other text fills in the only field of the form.
func answerOf(q *agent.Event, parts a2a.ContentParts) json.RawMessage {
	answer := valueOf(q, parts)
	if q.What != "elicit" {
		return answer
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(answer, &object) != nil {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		_ = json.Unmarshal(q.Schema, &schema) // no fields: the answer is not an object
		if len(schema.Properties) != 1 {
			return answer
		}
		for field := range schema.Properties {
			object = map[string]json.RawMessage{field: answer}
		}
	}
	if object["action"] == nil {
		answer, _ = json.Marshal(map[string]any{"action": "accept", "content": object}) // from JSON
	}
	return answer
}

// valueOf is the data of a message, or its text.
func valueOf(q *agent.Event, parts a2a.ContentParts) json.RawMessage {
	var texts []string
	for _, p := range parts {
		if _, ok := p.Content.(a2a.Data); ok {
			if raw, err := json.Marshal(p.Data()); err == nil {
				return raw
			}
		}
		texts = append(texts, p.Text())
	}
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	if q.Schema != nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	raw, _ := json.Marshal(text) // a string always encodes
	return raw
}

func says(ec *a2asrv.ExecutorContext, text string) *a2a.Message {
	return a2a.NewMessageForTask(a2a.MessageRoleAgent, ec, a2a.NewTextPart(text))
}

// answerID is the artifact with the answer.
const answerID = a2a.ArtifactID("answer")

// output sends what happens in a run.
type output struct {
	ec    *a2asrv.ExecutorContext
	yield func(a2a.Event, error) bool
	gone  bool   // the client no longer reads
	begun bool   // the artifact has a first piece
	shown int    // bytes of the text so far that were sent
	held  string // text that waits for more: see maxPieces
}

func (o *output) send(e a2a.Event) {
	o.gone = o.gone || !o.yield(e, nil)
}

func (o *output) event(e *agent.Event) {
	if e.Depth > 0 {
		return
	}
	if e.Kind != agent.EventText {
		o.flush()
	}
	switch e.Kind {
	case agent.EventRequest, agent.EventRetry:
		o.begun, o.shown = false, 0 // what was shown of the answer is void
		if e.Kind == agent.EventRequest && e.Turn == 1 {
			o.send(a2a.NewStatusUpdateEvent(o.ec, a2a.TaskStateWorking, nil))
		}
	case agent.EventText:
		if o.held += e.Text; len(o.held)*maxPieces >= o.shown {
			o.flush()
		}
	case agent.EventCallStarted:
		status := a2a.NewStatusUpdateEvent(o.ec, a2a.TaskStateWorking, says(o.ec, "calls "+e.Tool))
		status.Metadata = map[string]any{"tool": e.Tool, "call": e.Key}
		o.send(status)
	}
}

// maxPieces limits the pieces of a long text to about this number each time that its length
// triples: for each new piece, the library copies all pieces of the artifact.
const maxPieces = 50

func (o *output) flush() {
	if o.held != "" {
		o.shown += len(o.held)
		o.piece(o.held, false, nil)
		o.held = ""
	}
}

// piece sends a piece of the answer. The first one replaces what the artifact had.
func (o *output) piece(text string, last bool, media []*a2a.Part) {
	e := a2a.NewArtifactUpdateEvent(o.ec, answerID, append([]*a2a.Part{a2a.NewTextPart(text)}, media...)...)
	e.Append, e.LastChunk = o.begun, last
	o.begun = true
	o.send(e)
}

func (o *output) finish(out *agent.Outcome, err error) {
	state, message := a2a.TaskStateCompleted, (*a2a.Message)(nil)
	if err != nil {
		state, message = a2a.TaskStateFailed, says(o.ec, err.Error())
		switch out.Status {
		case agent.StatusRefused:
			state = a2a.TaskStateRejected
		case agent.StatusInterrupted:
			state = a2a.TaskStateCanceled
		}
	} else {
		var media []*a2a.Part
		for _, p := range out.Message.Parts {
			if p.Kind == agent.PartMedia {
				raw := a2a.NewRawPart(p.Data)
				raw.MediaType, raw.Filename = p.MIME, p.Name
				media = append(media, raw)
			}
		}
		o.begun = false // the whole answer replaces its pieces
		o.piece(out.Answer, true, media)
	}
	end := a2a.NewStatusUpdateEvent(o.ec, state, message)
	end.Metadata = plain(struct {
		Status  agent.Status `json:"status"`
		Reason  string       `json:"reason,omitempty"`
		Session string       `json:"session"`
		Turns   int          `json:"turns"`
	}{out.Status, out.Reason, out.Session, out.Turns})
	if out.Receipt != nil {
		end.Metadata["receipt"] = plain(out.Receipt)
	}
	if header, _ := o.ec.ServiceParams.Get(a2a.SvcParamExtensions); wantsUsage(header) {
		end.Metadata[a2aclient.UsageExtension] = plain(out.Total.Usage)
	}
	o.send(end)
}
