// Package lua implements the LuaToolbox: Lua scripts that call the tools of their agent, so
// that one call of the model can combine many.
//
// A script runs in a separate process, agents-toolbox (package interpreter), which can only
// compute. It calls tools as the agent does: the process takes the place of the model in a
// run below that of the agent ([runner.OnBehalf]), so its calls are subject to the
// same rules, budgets and journal as all others.
//
// The process reads a [Start] and writes [Step]s, one JSON value in each line. A Step with
// calls is answered with an array of their [Result]s.
package lua

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
)

// Options say how scripts run.
type Options struct {
	// Name is part of the name of the tool, lua_NAME_execute, and Description the
	// beginning of its description.
	Name, Description string
	// Allowed are the names of the tools that scripts may call; nil means all tools of the
	// agent.
	Allowed []string
	// Timeout is how long a script may run, with its calls; 0 means 5 minutes.
	Timeout time.Duration
	// Limits are those of Command, which runs one script.
	Limits  Limits
	Command process.Command
	// Permits says in one line what the sandbox of Command permits; "" if there is none.
	Permits string
}

// Limits are what one script may consume; 0 means 256 MB and 1,000,000,000 instructions.
type Limits struct {
	MemoryMB     int   `json:"memoryMB"`
	Instructions int64 `json:"instructions"`
}

// WithDefaults returns l with the defaults in place of what is 0.
func (l Limits) WithDefaults() Limits {
	return Limits{cmp.Or(l.MemoryMB, 256), cmp.Or(l.Instructions, 1_000_000_000)}
}

// ErrMemory is the error of a script that needs more memory.
func (l Limits) ErrMemory() error {
	return fmt.Errorf("the script needed more than %d MB of memory (maxMemoryMB)", l.MemoryMB)
}

// A Start tells the process which script to run. Tools are the names of the tools that the
// script may call.
type Start struct {
	Script string `json:"script"`
	Tools  []any  `json:"tools"`
}

// A Step contains the calls that a script makes next, at the same time. The last Step has no
// calls, but the text that the script printed and the JSON array of the values that it
// returned, or the reason why it failed.
type Step struct {
	Calls  []Call          `json:"calls,omitempty"`
	Output string          `json:"output,omitempty"`
	Values json.RawMessage `json:"values,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// A Call is a call of a tool.
type Call struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// A Result is the result of a Call. ID is the id of the call in the session.
type Result struct {
	Text    string  `json:"text"`
	Failed  bool    `json:"failed"`
	Seconds float64 `json:"seconds"`
	ID      string  `json:"id"`
}

const schema = `{"type":"object","properties":{"script":{"type":"string","description":"the script"},"timeout":{"type":"number","exclusiveMinimum":0,"description":"time limit for the script in seconds; it can only be shorter than the usual one"}},"required":["script"],"additionalProperties":false}`

const help = `Runs a script in Lua 5.1 that can call your tools, and returns what it prints and the JSON array of the values that it returns. Use it to make many calls, for example in a loop, and to return only the relevant parts of their results.

tools.call(name, {argument = value}) calls a tool and returns a table: status is "ok", "error" or "not-allowed"; result is the result (a table if it is JSON); error is the reason why the call failed. tools.all{{name, {…}}, …} makes several calls at the same time and returns their tables in that order. tools.list() returns the names.

There are also json (encode, decode), text (split, find, gsub, trim, startswith, endswith, lower, upper, len, sub), time (now, sleep, format, diff), string, table, math and coroutine. Scripts can access files and the network only through tools. Nothing is kept between scripts.`

// Open returns the toolbox. Nothing is executed.
func Open(o Options) agent.ToolList {
	o.Timeout, o.Limits = cmp.Or(o.Timeout, 5*time.Minute), o.Limits.WithDefaults()
	text := strings.TrimSpace(o.Description + "\n\n" + help)
	if o.Allowed != nil {
		text += fmt.Sprintf(" Scripts may call %s.", cmp.Or(strings.Join(o.Allowed, ", "), "no tools"))
	}
	text += fmt.Sprintf(" A script may run for %g s and use %d MB of memory.", o.Timeout.Seconds(), o.Limits.MemoryMB)
	return agent.ToolList{&tool{o, agent.ToolSpec{Name: "lua_" + o.Name + "_execute", Description: text, Schema: json.RawMessage(schema),
		Source: "LuaToolbox", Effects: agent.EffectsOnce}}}
}

type tool struct {
	Options
	spec agent.ToolSpec
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Sandbox implements agent.Sandboxed.
func (t *tool) Sandbox() string { return t.Permits }

// Call implements agent.Tool.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args struct {
		Script  string
		Timeout float64
	}
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	limit := t.Timeout
	if s := args.Timeout; s > 0 && s < limit.Seconds() {
		limit = time.Duration(s * float64(time.Second))
	}
	s := &script{tool: t, key: inv.Key, text: args.Script}
	defer s.close()
	out, err := runner.OnBehalf(ctx, inv, runner.Behalf{Model: model, Provider: s, Deadline: limit, Offers: t.offers}, agent.UserText(args.Script))
	switch {
	case s.failure != nil:
		return agent.Result{Parts: out.Message.Parts}, s.failure
	case s.last == nil && agent.StatusOf(err) == agent.StatusDeadline && ctx.Err() == nil:
		return agent.Result{}, fmt.Errorf("the script ran longer than %g s (maxExecutionTimeSeconds)", limit.Seconds())
	case s.last == nil:
		return agent.AnswerOf(out, err)
	case s.last.Error != "" && s.last.Output != "":
		return agent.TextResult(s.last.Output), errors.New(s.last.Error)
	case s.last.Error != "":
		return agent.Result{}, errors.New(s.last.Error)
	}
	return agent.TextResult(s.last.text()), err
}

// offers reports whether scripts may call a tool. Allowed may have names of agents-exe.
func (t *tool) offers(s agent.ToolSpec) bool {
	named := func(name string) bool { return name == s.Name || agent.OtherName(name) == s.Name }
	return s.Name != t.spec.Name && (t.Allowed == nil || slices.ContainsFunc(t.Allowed, named))
}

// text returns the result of a script that has not failed, for the model.
func (s *Step) text() string {
	switch {
	case s.Output == "":
		return string(s.Values)
	case string(s.Values) == "[]":
		return s.Output
	}
	return strings.TrimSuffix(s.Output, "\n") + "\n" + string(s.Values)
}
