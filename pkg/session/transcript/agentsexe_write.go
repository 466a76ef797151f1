package transcript

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// ToAgentsExe writes the root session of events as a session file of agents-exe.
// Sub-agents' sessions, times of calls, effects of tools and compactions are lost. The
// whole conversation is written, including the part that a compaction removed. All
// turns are in memory, since the newest is written first.
func ToAgentsExe(w io.Writer, events iter.Seq2[agent.Event, error]) error {
	x := &exporter{}
	id := ""
	withID := func(yield func(agent.Event, error) bool) {
		for e, err := range events {
			id = cmp.Or(id, e.Session)
			if !yield(e, err) {
				return
			}
		}
	}
	for t, err := range Turns(withID) {
		if err != nil {
			return err
		}
		x.turn(t)
	}
	x.addUser()
	slices.Reverse(x.turns)
	s := exeSession{Turns: x.turns, SessionID: uuid(id), TurnID: uuid(id + fmt.Sprint(len(x.turns))), Version: 1}
	if s.Turns == nil {
		s.Turns = []exeTurn{}
	}
	_, err := w.Write(append(encoded(s), '\n'))
	return err
}

// uuid returns id if it is a UUID, otherwise a UUID derived from it.
func uuid(id string) string {
	plain := strings.ReplaceAll(id, "-", "")
	if len(id) == 36 && len(plain) == 32 && strings.Trim(plain, "0123456789abcdefABCDEF") == "" {
		return strings.ToLower(id)
	}
	h := sha256.Sum256([]byte(id))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// An exporter converts turns to those of agents-exe, the oldest first.
type exporter struct {
	turns []exeTurn
	user  exeUser // the next turn of the user
	begun bool    // there is something in user
}

func (x *exporter) turn(t *Turn) {
	if t.Setup != nil && (t.Setup.System != "" || t.Setup.Specs != nil) {
		x.user.Prompt, x.user.Tools = t.Setup.System, nil
		for _, spec := range t.Setup.Specs {
			x.user.Tools = append(x.user.Tools, encoded(exportedTool(spec)))
		}
	}
	for i, p := range t.told() {
		if p.Role == agent.RoleAssistant && (x.begun || len(x.turns) > 0) { // an answer that was stopped
			x.addUser()
			x.answer(&agent.Event{Message: &p})
			continue
		}
		// Results get a turn of their own: agents-exe sends them after the query.
		if i > 0 || x.user.Responses != nil {
			x.addUser()
		}
		x.user.Query, x.begun = exportedQuery(p), true
	}
	if t.Answer == nil || t.Answer.Message == nil {
		return
	}
	x.begun = true // also when the model is asked again with nothing new
	x.addUser()
	calls := x.answer(t.Answer)
	for i, c := range t.Calls {
		if c.Result != nil {
			x.user.Responses = append(x.user.Responses, [2]json.RawMessage{calls[i], exportedResult(c.Result.Parts)})
			x.begun = true
		}
	}
}

// addUser adds the user's turn, if there is one.
func (x *exporter) addUser() {
	if !x.begun {
		return
	}
	u := x.user
	if u.Tools == nil {
		u.Tools = []json.RawMessage{}
	}
	if u.Responses == nil {
		u.Responses = [][2]json.RawMessage{}
	}
	x.turns = append(x.turns, exeTurn{Tag: "UserTurn", Contents: encoded(u)})
	x.user.Query, x.user.Responses, x.begun = nil, nil, false
}

func (x *exporter) answer(e *agent.Event) (calls []json.RawMessage) {
	m, text, thinking := e.Message, e.Message.Text(), reasoning(e.Message)
	calls = []json.RawMessage{}
	for _, c := range m.Calls {
		calls = append(calls, encodedCall(c))
	}
	raw := exeRaw{Model: e.Model, Choices: []exeChoice{{FinishReason: "stop"}}}
	if !e.Time.IsZero() {
		raw.Created = e.Time.Unix()
	}
	choice := &raw.Choices[0]
	if len(calls) > 0 {
		choice.FinishReason = "tool_calls"
	}
	choice.Message.Role, choice.Message.Content, choice.Message.Reasoning, choice.Message.Calls = "assistant", &text, thinking, calls
	l := exeLLM{Calls: calls}
	if u := e.Usage; u != nil {
		l.Response.Usage = &raw.Usage
		raw.Usage.Prompt, raw.Usage.Completion, raw.Usage.Total = u.InputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens
		raw.Usage.Details.Cached = u.CachedTokens
	}
	l.Response.Text, l.Response.Raw = &text, encoded(raw)
	if thinking != "" {
		l.Response.Thinking = &thinking
	}
	x.turns = append(x.turns, exeTurn{Tag: "LlmTurn", Contents: encoded(l)})
	return calls
}

func exportedTool(spec agent.ToolSpec) any {
	schema := spec.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	function := map[string]any{"name": spec.Name, "description": spec.Description, "parameters": schema}
	return map[string]any{"tag": "V1", "contents": map[string]any{
		"name": spec.Name, "llmName": spec.Name, "description": spec.Description, "properties": []any{},
		"raw": map[string]any{"type": "function", "function": function},
	}}
}

func exportedQuery(m agent.Message) json.RawMessage {
	var media []exeMedia
	for _, p := range m.Parts {
		if p.Kind == agent.PartMedia {
			media = append(media, exportedMedia(p))
		}
	}
	if media == nil {
		return encoded(m.Text())
	}
	return encoded(map[string]any{"text": m.Text(), "media": media})
}

func exportedMedia(p agent.Part) exeMedia {
	m := exeMedia{MIME: p.MIME, Data: base64.StdEncoding.EncodeToString(p.Data)}
	if p.Name != "" {
		m.Name = &p.Name
	}
	return m
}

func exportedResult(parts []agent.Part) json.RawMessage {
	content := func(kind string, value any) any { return map[string]any{"type": kind, "content": value} }
	text, list := contents(parts, func(s string) any { return content("text", s) },
		func(p agent.Part) any { return content("media", exportedMedia(p)) })
	if list != nil {
		return encoded(map[string]any{"type": "mixed", "parts": list})
	}
	return encoded(content("text", text))
}
