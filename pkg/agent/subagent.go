package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// promptSchema is the schema of every sub-agent's arguments, and compatSchema that of one
// that has the names of agents-exe.
const (
	promptSchema = schemaBegin + "prompt" + schemaMiddle + "prompt" + schemaEnd
	compatSchema = schemaBegin + "what" + schemaMiddle + "what" + schemaEnd

	schemaBegin  = `{"type":"object","properties":{"`
	schemaMiddle = `":{"type":"string","description":"what you ask of this agent; it knows nothing of your conversation"}},"required":["`
	schemaEnd    = `"],"additionalProperties":false}`
)

// The names of sub-agents as tools are one of these, an underscore and a slug. Models may
// call either: see OtherName.
const (
	ExpertPrefix = "expert"
	CompatPrefix = "io_prompt_agent" // in agents-exe
)

// OtherName is the second name under which a sub-agent can be called: io_prompt_agent_SLUG for
// expert_SLUG, and the reverse. It is empty if name is not of this form.
func OtherName(name string) string {
	if slug, ok := strings.CutPrefix(name, ExpertPrefix+"_"); ok {
		return CompatPrefix + "_" + slug
	}
	if slug, ok := strings.CutPrefix(name, CompatPrefix+"_"); ok {
		return ExpertPrefix + "_" + slug
	}
	return ""
}

// ToolIndex returns the index of the tool that a call of name refers to, or -1.
func ToolIndex(tools []ToolSpec, name string) int {
	i := slices.IndexFunc(tools, func(t ToolSpec) bool { return t.Name == name })
	if i >= 0 {
		return i
	}
	if other := OtherName(name); other != "" {
		i = slices.IndexFunc(tools, func(t ToolSpec) bool { return t.Name == other && t.IsAgent() })
	}
	return i
}

// A Subagent offers an agent to another as a tool. Every call is a new session
// that is run by the Runner of the calling agent.
type Subagent struct {
	// Name is the tool's name.
	Name   string
	Agent  *Agent
	Source string
	// Compat says that the argument is named "what", as in agents-exe.
	Compat bool
	// Expect is what the caller expects, in addition to what Agent says.
	Expect Expect
}

// Expects implements Expected.
func (s *Subagent) Expects() Expect {
	a := s.Agent
	return Expect{Accept: s.Expect.Accept, Receipt: cmp.Or(s.Expect.Receipt, a.Receipt), Dir: a.WorkDir}
}

// Spec describes the agent by its announcement.
func (s *Subagent) Spec() ToolSpec {
	spec := ToolSpec{
		Name: s.Name, Description: s.Agent.Announce, Schema: s.Agent.ArgsSchema(),
		Source: s.Source, Agent: s.Agent.Slug,
	}
	if s.Compat && s.Agent.InputSchema == nil {
		spec.Schema = json.RawMessage(compatSchema)
	}
	return spec
}

// Identity implements Identified. The digest is empty: agents that Agent starts are asked about
// separately, so the content of its file does not matter.
func (s *Subagent) Identity() (source, digest string) { return s.Agent.Source, "" }

// Restate replaces alternative names of sub-agents and of their argument in the calls of a
// model by the names that the model was shown.
func Restate(calls []ToolCall, tools []ToolSpec) {
	for i := range calls {
		c := &calls[i]
		if t := ToolIndex(tools, c.Name); t >= 0 && tools[t].Agent != "" {
			c.Name, c.Args = tools[t].Name, restateArgs(c.Args, string(tools[t].Schema))
		}
	}
}

func restateArgs(args, schema string) string {
	from, to := "what", "prompt"
	if schema == compatSchema {
		from, to = to, from
	} else if schema != promptSchema {
		return args
	}
	if strings.Contains(args, from) {
		if values, err := DecodeArgs(args); err == nil && len(values) == 1 && values[from] != nil {
			return `{"` + to + `":` + string(values[from]) + `}`
		}
	}
	return args
}

// Call runs the agent and answers as AnswerOf does.
func (s *Subagent) Call(ctx context.Context, inv *Invocation) (Result, error) {
	prompt, err := s.Agent.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return Result{}, err
	}
	return AnswerOf(inv.Run(ctx, s.Agent, prompt))
}

// ArgsSchema is the JSON Schema of the arguments of a as a tool.
func (a *Agent) ArgsSchema() json.RawMessage {
	if a.InputSchema != nil {
		return a.InputSchema.Schema
	}
	return json.RawMessage(promptSchema)
}

// Prompt makes of the arguments of a as a tool, a JSON object, the message that begins a
// run: the text "prompt", if there is one, and below it the other arguments as JSON. The
// error says what does not fit InputSchema.
func (a *Agent) Prompt(ctx context.Context, args string) (Message, error) {
	values, err := DecodeArgs(args)
	if err != nil {
		return Message{}, err
	}
	if len(values) == 0 {
		args = "{}"
	}
	if a.InputSchema != nil {
		if err := a.InputSchema.Check(ctx, json.RawMessage(args)); err != nil {
			return Message{}, fmt.Errorf("the arguments do not fit the agent's inputSchema:%w", err)
		}
	}
	raw, ok := values["prompt"]
	if !ok && a.InputSchema == nil {
		raw, ok = values["what"]
	}
	var prompt string
	err = json.Unmarshal(raw, &prompt)
	switch {
	case a.InputSchema == nil && !ok:
		return Message{}, errors.New("the argument prompt is missing")
	case a.InputSchema == nil && err != nil:
		return Message{}, fmt.Errorf("the argument prompt: %w", err)
	case err == nil && (a.InputSchema == nil || len(values) == 1):
		return UserText(prompt), nil
	case err == nil:
		delete(values, "prompt")
	}
	rest, err := jsondoc.Encode(values, "")
	if err != nil {
		return Message{}, err
	}
	if prompt != "" {
		prompt += "\n\n"
	}
	return UserText(prompt + string(rest)), nil
}
