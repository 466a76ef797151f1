package step

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An ObservationKind tells the kinds of Observation apart. Its names are stable.
type ObservationKind string

// What can come of an action, and Said, which comes by itself.
const (
	Output      ObservationKind = "output"  // of Run, Kill, RunPython and Message
	FileRead    ObservationKind = "read"    // of Read
	FileWritten ObservationKind = "write"   // of Write
	Browser     ObservationKind = "browser" // of Browse
	Recalled    ObservationKind = "recall"  // of Recall
	Failed      ObservationKind = "error"   // of an action that failed
	Success     ObservationKind = "success" // of the others
	Said        ObservationKind = "message" // by the user, or by the runtime in brackets
)

// An Observation is something that happened.
type Observation struct {
	Kind ObservationKind `json:"observation"`
	// Action is the kind of the action that it came of; "" for Said.
	Action ActionKind `json:"action,omitempty"`
	Text   string     `json:"text"`
	// ExitCode is the exit code of a command of Run that has ended; nil otherwise.
	ExitCode *int `json:"exit_code,omitempty"`
}

// A Step is an action and what happened after it, before the next one.
type Step struct {
	Action       Action        `json:"action"`
	Observations []Observation `json:"observations"`
}

// A Session is the conversation that an agent is in.
type Session struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// System is the system prompt of the agent, for its configuration.
	System string `json:"system,omitempty"`
	// Turns counts the steps so far. History has all of them unless the conversation
	// was shortened.
	Turns   int    `json:"turns"`
	History []Step `json:"history"`
}

// A Task is the prompt of the session or a task of its plan.
type Task struct {
	ID    string `json:"id"` // "" for the prompt
	Title string `json:"title"`
	State string `json:"state"`
	Note  string `json:"note,omitempty"`
	Tasks []Task `json:"tasks,omitempty"`
}

// A State is what an agent knows when it takes a step. It must not be changed.
type State struct {
	Session Session `json:"session"`
	// Observations are what happened since the last step: what came of it, and what
	// was said. In the first step that is the prompt.
	Observations []Observation `json:"observations"`
	// Task is the first prompt of the session, with the plan.
	Task Task `json:"task"`
}

// StateOf is the state that a request describes.
func StateOf(req *agent.Request) State {
	s := State{Session: Session{ID: req.Session, Agent: req.Agent, System: req.System, Turns: max(req.Turn-1, 0), History: []Step{}},
		Observations: []Observation{}, Task: Task{State: agent.TaskOpen}}
	var plan agent.Plan
	for i, m := range req.Messages {
		switch {
		case m.Role == agent.RoleUser:
			if s.Task.Title == "" {
				s.Task.Title = strings.TrimSpace(m.Text())
			}
			s.observe(Observation{Kind: Said, Text: m.Text()})
		case m.Role == agent.RoleTool:
			for _, r := range m.Results {
				if r.Task != nil && !r.Failed {
					plan = plan.With(*r.Task)
				}
			}
		case len(m.Calls) == 0:
			if i > 0 && req.Messages[i-1].Role == agent.RoleTool && s.finished() {
				continue // the runtime has made it of that action
			}
			s.did(Action{Kind: Talk, Text: m.Text()})
		case i+1 < len(req.Messages):
			for n, r := range req.Messages[i+1].Results {
				s.result(m.Text(), m.Calls[n], r)
			}
		}
	}
	s.Task.Tasks = tasks(plan)
	return s
}

func (s *State) finished() bool {
	steps := s.Session.History
	return len(steps) > 0 && steps[len(steps)-1].Action.Kind == Finish
}

func (s *State) did(a Action) {
	s.Session.History = append(s.Session.History, Step{Action: a, Observations: []Observation{}})
	s.Observations = []Observation{}
}

func (s *State) observe(o Observation) {
	s.Observations = append(s.Observations, o)
	if n := len(s.Session.History); n > 0 {
		s.Session.History[n-1].Observations = s.Observations
	}
}

// result adds the step of a call, whose message also has the text said. Calls that no action
// makes, in a conversation that another model began, are left out.
func (s *State) result(said string, c agent.ToolCall, r agent.ToolResult) {
	a, ok := actionOf(c.Name, c.Args)
	if !ok {
		return
	}
	if a == (Action{Kind: Think, Text: told}) {
		a = Action{Kind: Talk, Text: said, Continue: true}
	}
	s.did(a)
	o := Observation{Kind: ruleOf(a.Kind).gives, Action: a.Kind, Text: r.Answer()}
	if r.Failed {
		o.Kind = Failed
	}
	if a.Kind == Run {
		o.ExitCode = r.ExitCode()
	}
	for _, p := range r.Parts {
		if p.Kind == agent.PartMedia {
			o.Text += fmt.Sprintf("[%s, %d bytes]", p.MIME, len(p.Data))
		}
	}
	s.observe(o)
}

// tasks are those of a plan as a tree.
func tasks(plan agent.Plan) []Task {
	var top []Task
	plan.Walk(func(t agent.Task, depth int) {
		list := &top
		for range depth {
			list = &(*list)[len(*list)-1].Tasks
		}
		*list = append(*list, Task{ID: t.ID, Title: t.Title, State: cmp.Or(t.State, agent.TaskOpen), Note: t.Note})
	})
	return top
}
