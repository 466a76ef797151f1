// Package plan has the tools with which a model keeps a plan and thinks: [Tasks] are
// add_task and modify_task, [Think] is think.
//
// The plan is part of the session: each result says what it adds or changes (see
// [agent.Result]), so a resumed or replayed session has the same plan, and it outlasts a
// compaction. The tools keep nothing. None of them has an effect on anything else.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

const source = "PlanToolbox"

const (
	addName    = "add_task"
	modifyName = "modify_task"
)

type tool struct {
	spec agent.ToolSpec
	call func(inv *agent.Invocation) (agent.Result, error)
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool.
func (t *tool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.call(inv)
}

// Tasks returns the tools add_task and modify_task.
func Tasks() agent.ToolList {
	return agent.ToolList{
		&tool{agent.ToolSpec{Name: addName, Source: source, Effects: agent.EffectsNone,
			Description: "Adds a task to the plan, which the person sees. Use it for work of several steps, before you begin.",
			Schema:      json.RawMessage(`{"type":"object","properties":{` + id("a short new name for the task, such as tests") + `,` + title + `,"parent":{"type":"string","description":"the id of the task that it is a part of"},` + state + `},"required":["id","title"],"additionalProperties":false}`)}, add},
		&tool{agent.ToolSpec{Name: modifyName, Source: source, Effects: agent.EffectsNone,
			Description: "Changes a task of the plan: say doing when you begin it and done when it is. Returns the plan.",
			Schema:      json.RawMessage(`{"type":"object","properties":{` + id("the task") + `,` + state + `,` + title + `,"note":{"type":"string","maxLength":2000,"description":"what came of it, or what is in its way"}},"required":["id"],"additionalProperties":false}`)}, modify},
	}
}

func id(description string) string {
	return `"id":{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$","description":"` + description + `"}`
}

const (
	title = `"title":{"type":"string","minLength":1,"maxLength":500,"description":"what is to be done, in one line"}`
	state = `"state":{"enum":["open","doing","done","dropped"],"description":"how far it is; a new task is open"}`
)

func add(inv *agent.Invocation) (agent.Result, error) {
	plan, earlier, known := planOf(inv)
	var t agent.Task
	if err := json.Unmarshal([]byte(inv.Call.Args), &t); err != nil {
		return agent.Result{}, err
	}
	switch {
	case slices.ContainsFunc(plan, func(old agent.Task) bool { return old.ID == t.ID }), slices.Contains(earlier, t.ID):
		return agent.Result{}, fmt.Errorf("there is a task %s already; %s changes it", t.ID, modifyName)
	case t.Parent == t.ID || t.Parent != "" && !slices.Contains(known, t.Parent):
		return agent.Result{}, unknown("parent", t.Parent, known)
	}
	r := agent.TextResult("added task " + t.ID)
	r.Task = &t
	return r, nil
}

func modify(inv *agent.Invocation) (agent.Result, error) {
	plan, _, known := planOf(inv)
	var t agent.Task
	if err := json.Unmarshal([]byte(inv.Call.Args), &t); err != nil {
		return agent.Result{}, err
	}
	switch {
	case !slices.Contains(known, t.ID):
		return agent.Result{}, unknown("task", t.ID, known)
	case t == agent.Task{ID: t.ID}:
		return agent.Result{}, fmt.Errorf("there is nothing to change: give a state, a title or a note")
	}
	plan = plan.With(t)
	r := agent.TextResult(plan.String() + plan.Progress())
	r.Task = &t
	return r, nil
}

func unknown(what, id string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no %s %s: the plan is empty", what, id)
	}
	return fmt.Errorf("there is no %s %s; there are: %s", what, id, strings.Join(known, ", "))
}

// planOf is the plan as it was before the turn, the ids of the tasks that earlier calls of
// the turn add, and the ids of all tasks that the plan has after the turn. Calls of a turn
// run at the same time, so their results do not count.
func planOf(inv *agent.Invocation) (plan agent.Plan, earlier, known []string) {
	s := inv.SessionState()
	for _, t := range s.Plan {
		known = append(known, t.ID)
	}
	if len(s.Messages) == 0 {
		return s.Plan, nil, known
	}
	for i, c := range s.Messages[len(s.Messages)-1].Calls {
		var t agent.Task
		if c.Name != addName || json.Unmarshal([]byte(c.Args), &t) != nil {
			continue
		}
		if i+1 < inv.N {
			earlier = append(earlier, t.ID)
		}
		known = append(known, t.ID)
	}
	return s.Plan, earlier, known
}

// Think returns the tool think.
func Think() agent.ToolList {
	return agent.ToolList{&tool{agent.ToolSpec{Name: "think", Source: "ThinkToolbox", Effects: agent.EffectsNone,
		Description: "Keeps a thought. It has no effect: use it to reason about what you have read before you act.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","minLength":1,"description":"the thought"}},"required":["text"],"additionalProperties":false}`)},
		func(*agent.Invocation) (agent.Result, error) { return agent.TextResult("noted"), nil }}}
}
