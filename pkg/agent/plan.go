package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Task is a part of a plan. What is empty in the task of a ToolResult stays as it was.
type Task struct {
	// ID names the task in its session.
	ID string `json:"id"`
	// Parent is the ID of the task that it is a part of; "" at the top.
	Parent string `json:"parent,omitempty"`
	Title  string `json:"title,omitempty"`
	// State is one of the states of tasks; "" means TaskOpen.
	State string `json:"state,omitempty"`
	// Note says what came of it, or what is in its way.
	Note string `json:"note,omitempty"`
}

// The states of a task.
const (
	TaskOpen    = "open"
	TaskDoing   = "doing"
	TaskDone    = "done"
	TaskDropped = "dropped"
)

// A Plan is what a session has set out to do, in the order in which it was added.
type Plan []Task

// With returns the plan with a task that was added or changed. p does not change.
func (p Plan) With(t Task) Plan {
	i := slices.IndexFunc(p, func(old Task) bool { return old.ID == t.ID })
	if i < 0 {
		return append(slices.Clip(p), t)
	}
	p = slices.Clone(p)
	for _, field := range []struct {
		old *string
		new string
	}{{&p[i].Parent, t.Parent}, {&p[i].Title, t.Title}, {&p[i].State, t.State}, {&p[i].Note, t.Note}} {
		if field.new != "" {
			*field.old = field.new
		}
	}
	return p
}

// Walk calls f with each task and the number of tasks above it: parents first, in their
// order. A task whose parent is missing, or part of it, is at the top.
func (p Plan) Walk(f func(t Task, depth int)) {
	seen, ids, parts := map[string]bool{}, map[string]bool{}, map[string][]Task{}
	for _, t := range p {
		ids[t.ID] = true
		parts[t.Parent] = append(parts[t.Parent], t)
	}
	var visit func(t Task, depth int)
	visit = func(t Task, depth int) {
		if seen[t.ID] {
			return
		}
		seen[t.ID] = true
		f(t, depth)
		for _, part := range parts[t.ID] {
			visit(part, depth+1)
		}
	}
	for _, t := range p {
		if t.Parent == "" || !ids[t.Parent] {
			visit(t, 0)
		}
	}
	for _, t := range p { // tasks that are each other's parents
		visit(t, 0)
	}
}

// String has a line for each task, as "[x] tests: Write tests (all of them pass)".
func (p Plan) String() string {
	marks := map[string]string{TaskDoing: "[~]", TaskDone: "[x]", TaskDropped: "[-]"}
	var b strings.Builder
	p.Walk(func(t Task, depth int) {
		fmt.Fprintf(&b, "%s%s %s: %s", strings.Repeat("  ", min(depth, 10)), cmp.Or(marks[t.State], "[ ]"), t.ID, t.Title)
		if t.Note != "" {
			fmt.Fprintf(&b, " (%s)", t.Note)
		}
		b.WriteByte('\n')
	})
	return b.String()
}

// Progress says how far the plan came, as "2 of 3 tasks are done".
func (p Plan) Progress() string {
	done, all := 0, 0
	for _, t := range p {
		if t.State == TaskDone {
			done++
		}
		if t.State != TaskDropped {
			all++
		}
	}
	return fmt.Sprintf("%d of %d tasks are done", done, all)
}

// ending is the first of results that ends the run; nil if there is none.
func ending(results []ToolResult) *ToolResult {
	i := slices.IndexFunc(results, func(r ToolResult) bool { return r.End != "" && !r.Failed })
	if i < 0 {
		return nil
	}
	return &results[i]
}

// refusal is the result that ended the conversation without an answer; nil if there is
// none.
func (s *Session) refusal() *ToolResult {
	if len(s.Messages) == 0 || s.last().Role != RoleTool {
		return nil
	}
	return ending(s.last().Results)
}

// finishTurn adds the results of a turn, which are complete, to the conversation. The
// text of one that ends the run with StatusOK is the model's answer.
func (s *Session) finishTurn() {
	m := Message{Role: RoleTool, Results: make([]ToolResult, len(s.Calls))}
	for i, c := range s.Calls {
		m.Results[i] = *c.Result
		if c.Result.Task != nil && !c.Result.Failed {
			s.Plan = s.Plan.With(*c.Result.Task)
		}
		if len(c.Result.Toolgroups) > 0 && !c.Result.Failed {
			before := s.Toolgroups // callers may have it
			s.Toolgroups = Toolgroups{}
			maps.Copy(s.Toolgroups, before)
			maps.Copy(s.Toolgroups, c.Result.Toolgroups)
		}
	}
	end := ending(m.Results)
	if end != nil && end.End == StatusOK {
		answer := Message{Role: RoleAssistant, Parts: end.Parts}
		defer func() { s.add(answer) }() // behind the results
	}
	s.noteLoop(s.last().Calls, m.Results)
	s.add(m)
	s.Calls = nil
}
