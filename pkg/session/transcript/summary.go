package transcript

import (
	"iter"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Summary is a session as a list shows it.
type Summary struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Model string `json:"model,omitempty"`
	// Began is the time of its first event, Last that of its last one.
	Began time.Time `json:"began"`
	Last  time.Time `json:"last"`
	// Prompt is the text of the first user message, at most 1,000 bytes of it.
	Prompt string `json:"prompt"`
	// Turns counts the answers of the root session; Calls, Failed and SubAgents
	// those of the whole tree, and so does Usage.
	Turns     int         `json:"turns"`
	Calls     int         `json:"calls"`
	Failed    int         `json:"failed"`
	SubAgents int         `json:"sub_agents"`
	Usage     agent.Usage `json:"usage"`
	// Plan is that of the root session.
	Plan agent.Plan `json:"plan,omitempty"`
	// Outcome is that of the last run, empty if it did not end, and Error its
	// reason.
	Outcome agent.Status `json:"outcome,omitempty"`
	Error   string       `json:"error,omitempty"`
}

const maxFirst = 1000

// Summarize reads all events. With an error it returns the Summary of the events
// before it.
func Summarize(events iter.Seq2[agent.Event, error]) (*Summary, error) {
	s := &Summary{}
	nested := map[string]bool{}
	for e, err := range events {
		if err != nil {
			return s, err
		}
		if !e.Kind.Lasting() {
			continue
		}
		if s.ID == "" {
			s.ID, s.Agent = e.Session, e.Agent
		}
		s.note(&e)
		if e.Session != s.ID && !nested[e.Session] {
			nested[e.Session] = true
			s.SubAgents++
		}
	}
	return s, nil
}

func (s *Summary) note(e *agent.Event) {
	if !e.Time.IsZero() {
		if s.Began.IsZero() {
			s.Began = e.Time
		}
		s.Last = e.Time
	}
	root := e.Session == s.ID
	switch e.Kind {
	case agent.EventMessage:
		if root && e.Message != nil {
			s.Outcome, s.Error = "", ""
			if s.Prompt == "" && e.Message.Role == agent.RoleUser {
				s.Prompt = short(e.Message.Text())
			}
		}
	case agent.EventAnswer, agent.EventCompaction, agent.EventFailure, agent.EventResume:
		if e.Usage != nil {
			s.Usage = s.Usage.Add(*e.Usage)
		}
		if root && e.Kind == agent.EventAnswer {
			s.Turns++
		}
	case agent.EventCallEnded:
		s.Calls++
		if e.Result != nil && e.Result.Failed {
			s.Failed++
		}
		if root && e.Result != nil && e.Result.Task != nil {
			s.Plan = s.Plan.With(*e.Result.Task)
		}
	case agent.EventEnd:
		if root {
			s.Outcome, s.Error = e.Status, e.Error
		}
	}
	if root && e.Model != "" {
		s.Model = e.Model
	}
}

// short copies the beginning of a text, so that the rest can be freed.
func short(s string) string {
	return string([]byte(cut(s, maxFirst)))
}
