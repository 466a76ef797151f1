// Package plan has the tools with which a model keeps a plan and thinks: [Tasks] are
// add_task and modify_task, [Think] is think.
//
// The plan is part of the session: each result says what it adds or changes (see
// [agent.Result]), so a resumed or replayed session has the same plan, and it outlasts a
// compaction. The tools themselves store nothing. None of them has an effect on anything else.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

const source = "PlanToolbox"

const (
	addName    = "add_task"
	modifyName = "modify_task"
)

// maxTasks is how many tasks a plan has at most: each change of it returns the whole.
const maxTasks = 500

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
	k := &known{}
	return agent.ToolList{
		&tool{agent.ToolSpec{Name: addName, Source: source, Effects: agent.EffectsNone,
			Description: "Adds a task to the plan, which the person sees. Use it for work of several steps, before you begin.",
			Schema:      json.RawMessage(`{"type":"object","properties":{` + id("a short new name for the task, such as tests") + `,` + title + `,"parent":{"type":"string","description":"the id of the task that it is a part of"},` + state + `},"required":["id","title"],"additionalProperties":false}`)}, k.add},
		&tool{agent.ToolSpec{Name: modifyName, Source: source, Effects: agent.EffectsNone,
			Description: "Changes a task of the plan: say doing when you begin it and done when it is. Returns the plan.",
			Schema:      json.RawMessage(`{"type":"object","properties":{` + id("the task") + `,` + state + `,` + title + `,"note":{"type":"string","maxLength":2000,"description":"what came of it, or what is in its way"}},"required":["id"],"additionalProperties":false}`)}, k.modify},
	}
}

func id(description string) string {
	return `"id":{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$","description":"` + description + `"}`
}

const (
	title = `"title":{"type":"string","minLength":1,"maxLength":500,"description":"what is to be done, in one line"}`
	state = `"state":{"enum":["open","doing","done","dropped"],"description":"how far it is; a new task is open"}`
)

// A known caches the tasks of the current turn, so that its many calls do not each compute them.
type known struct {
	mu   sync.Mutex
	turn *agent.ToolCall // its first call
	ids  *ids
}

// ids are the tasks that a plan has after a turn. Calls of a turn run at the same time, so their
// results do not count.
type ids struct {
	list  []string
	place map[string]int // in list
	by    map[string]int // the call of the turn that adds the task, from 1; 0: an earlier turn
}

func (k *known) add(inv *agent.Invocation) (agent.Result, error) {
	_, all := k.tasks(inv)
	var t agent.Task
	if err := json.Unmarshal([]byte(inv.Call.Args), &t); err != nil {
		return agent.Result{}, err
	}
	by, found := all.by[t.ID]
	_, parent := all.by[t.Parent]
	switch {
	case found && by < inv.N:
		return agent.Result{}, fmt.Errorf("there is a task %s already; %s changes it", t.ID, modifyName)
	case all.place[t.ID] >= maxTasks:
		return agent.Result{}, fmt.Errorf("a plan has at most %d tasks", maxTasks)
	case t.Parent == t.ID || t.Parent != "" && !parent:
		return agent.Result{}, unknown("parent", t.Parent, all.list)
	}
	r := agent.TextResult("added task " + t.ID)
	r.Task = &t
	return r, nil
}

func (k *known) modify(inv *agent.Invocation) (agent.Result, error) {
	plan, all := k.tasks(inv)
	var t agent.Task
	if err := json.Unmarshal([]byte(inv.Call.Args), &t); err != nil {
		return agent.Result{}, err
	}
	_, found := all.by[t.ID]
	switch {
	case !found:
		return agent.Result{}, unknown("task", t.ID, all.list)
	case t == agent.Task{ID: t.ID}:
		return agent.Result{}, fmt.Errorf("there is nothing to change: give a state, a title or a note")
	}
	plan = plan.With(t)
	r := agent.TextResult(plan.String() + plan.Progress())
	r.Task = &t
	return r, nil
}

func unknown(what, id string, list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("there is no %s %s: the plan is empty", what, id)
	}
	more := ""
	if len(list) > maxTasks {
		list, more = list[:maxTasks], ", …"
	}
	return fmt.Errorf("there is no %s %s; there are: %s%s", what, id, strings.Join(list, ", "), more)
}

// tasks returns the plan as it was before the turn, and the tasks that it has after the turn.
func (k *known) tasks(inv *agent.Invocation) (agent.Plan, *ids) {
	s := inv.SessionState()
	var calls []agent.ToolCall
	if len(s.Messages) > 0 {
		calls = s.Messages[len(s.Messages)-1].Calls
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(calls) > 0 && k.turn == &calls[0] {
		return s.Plan, k.ids
	}
	all := &ids{place: map[string]int{}, by: map[string]int{}}
	note := func(id string, by int) {
		if _, ok := all.by[id]; !ok {
			all.place[id], all.by[id] = len(all.list), by
			all.list = append(all.list, id)
		}
	}
	for _, t := range s.Plan {
		note(t.ID, 0)
	}
	for i, c := range calls {
		var t agent.Task
		if c.Name == addName && json.Unmarshal([]byte(c.Args), &t) == nil {
			note(t.ID, i+1)
		}
	}
	if k.ids = all; len(calls) > 0 {
		k.turn = &calls[0]
	}
	return s.Plan, all
}

// Think returns the tool think.
func Think() agent.ToolList {
	return agent.ToolList{&tool{agent.ToolSpec{Name: "think", Source: "ThinkToolbox", Effects: agent.EffectsNone,
		Description: "Keeps a thought. It has no effect: use it to reason about what you have read before you act.",
		Schema:      json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","minLength":1,"description":"the thought"}},"required":["text"],"additionalProperties":false}`)},
		func(*agent.Invocation) (agent.Result, error) { return agent.TextResult("noted"), nil }}}
}
