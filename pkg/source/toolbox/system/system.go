// Package system has the SystemToolbox: one tool that reports on the machine and on sessions,
// lists folders, attaches files and runs commands.
//
// The tool takes the name of a capability and its arguments, as in agents-exe, whose
// agent files and prompts rely on it. Except for execute-command it changes nothing. The
// result is a JSON object with the fields capability and data, a file that is attached, or
// what a command printed.
package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
)

// Capabilities are all that the tool can do; those from the second line on only where the
// agent file names them.
var Capabilities = []string{
	"date", "operating-system", "env-vars", "running-user", "hostname", "working-directory", "process-info", "uptime", "disk", "own-session",
	"list-sessions", "search-sessions", "read-session", "get-session-stats", "list-directory", "attach-file", executeCommand,
}

const executeCommand = "execute-command"

// Sessions are the sessions of earlier runs.
type Sessions interface {
	// List returns the sessions, the most recently changed first.
	List(ctx context.Context) ([]Session, error)
	// Search returns those that contain one of the words, at most max, and how many there
	// are.
	Search(ctx context.Context, words []string, max int) ([]Match, int, error)
	// Read returns a session as text.
	Read(ctx context.Context, id string, p Part) (*Content, error)
}

// A Session is what the list says of one.
type Session struct {
	ID       string `json:"sessionId"`
	Agent    string `json:"agent"`
	Prompt   string `json:"prompt"`
	Modified string `json:"modificationTime"`
	Turns    int    `json:"turnCount"`
	Status   string `json:"status"` // of the last run; "active" if it has not ended
}

// A Match is a session that Search has found.
type Match struct {
	ID      string `json:"sessionId"`
	Turns   int    `json:"turnCount"`
	Preview string `json:"preview"`
}

// A Part says what is read of a session: the turns from First on, counted from 0, or the Last
// ones; at most Max if it is not 0.
type Part struct {
	First, Last, Max int
	Thinking, Calls  bool
}

// A Content is what was read.
type Content struct {
	ID    string `json:"sessionId"`
	Total int    `json:"totalTurns"`
	Turns int    `json:"returnedTurns"`
	Text  string `json:"content"`
}

// Options are the settings of a toolbox.
type Options struct {
	// Name is part of the tool's name: system_NAME_system_info.
	Name        string
	Description string
	// Capabilities are those of [Capabilities] that the model may use; none means those that
	// tell about this machine and this session.
	Capabilities []string
	// Dir is the working directory of the agent.
	Dir string
	// Environ has the variables whose names are listed; EnvFilter is a text that they contain.
	Environ   []string
	EnvFilter string
	// Sessions are those that list-sessions and the like show; nil if there are none.
	Sessions Sessions
	// MaxResults limits the sessions of a list; 0 means 50.
	MaxResults int
	// ToolOutputs permits to read the results of calls in other sessions.
	ToolOutputs bool
	// List lists a folder, for list-directory, and Attach returns a file, for attach-file.
	// Both refuse what the model may not read. A capability whose function or tool is nil is
	// left out.
	List   func(inv *agent.Invocation, name string, recursive, hidden bool) (any, error)
	Attach func(inv *agent.Invocation, name string) (agent.Part, error)
	// Shell is the tool bash, whose calls have the argument command; execute-command calls it.
	// Accept, if it is not nil, refuses a command with an error.
	Shell  agent.Tool
	Accept func(ctx context.Context, command string) error
}

// Open returns the toolbox.
func Open(o Options) agent.ToolList {
	if o.MaxResults <= 0 {
		o.MaxResults = 50
	}
	if len(o.Capabilities) == 0 {
		o.Capabilities = Capabilities[:slices.Index(Capabilities, "list-sessions")]
	}
	missing := map[string]bool{"list-directory": o.List == nil, "attach-file": o.Attach == nil, executeCommand: o.Shell == nil}
	o.Capabilities = slices.DeleteFunc(slices.Clone(o.Capabilities), func(c string) bool { return missing[c] })
	return agent.ToolList{&tool{o}}
}

type tool struct{ o Options }

const schema = `{"type":"object","required":["capability"],"properties":{
"capability":{"type":"string","enum":"CAPABILITIES"},
"session_id":{"type":"string","description":"read-session: the id of the session"},
"query":{"type":"string","description":"search-sessions: words; a session with one of them is found"},
"take_n":{"type":"integer","minimum":1,"description":"read-session: only the last turns, so many"},
"drop_n":{"type":"integer","minimum":0,"description":"read-session: the same as offset"},
"offset":{"type":"integer","minimum":0,"description":"read-session: the first turn, counted from 0"},
"limit":{"type":"integer","minimum":1,"description":"read-session: how many turns at most"},
"include_thinking":{"type":"boolean","description":"read-session: with the reasoning of the model"},
"include_tool_responses":{"type":"boolean","description":"read-session: with the calls of tools and their results"},
"path":{"type":"string","description":"list-directory: the folder"},
"recursive":{"type":"boolean","description":"list-directory: include folders below"},
"include_hidden":{"type":"boolean","description":"list-directory: include names that begin with a dot"},
"filepath":{"type":"string","description":"attach-file: the file, such as an image"},
"command":{"type":"string","description":"execute-command: the commands, for bash"}}}`

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec {
	known, _ := json.Marshal(t.o.Capabilities)
	effects := agent.EffectsNone
	if slices.Contains(t.o.Capabilities, executeCommand) {
		effects = agent.EffectsOnce
	}
	return agent.ToolSpec{
		Name: "system_" + t.o.Name + "_system_info", Source: "SystemToolbox", Effects: effects,
		Description: strings.TrimSpace("Tells what this machine is and what is on it. " + t.o.Description),
		Schema:      json.RawMessage(strings.Replace(schema, `"CAPABILITIES"`, string(known), 1)),
	}
}

type arguments struct {
	Capability string `json:"capability"`
	Session    string `json:"session_id"`
	Query      string `json:"query"`
	TakeN      int    `json:"take_n"`
	DropN      int    `json:"drop_n"`
	Offset     int    `json:"offset"`
	Limit      int    `json:"limit"`
	Thinking   bool   `json:"include_thinking"`
	Calls      bool   `json:"include_tool_responses"`
	Path       string `json:"path"`
	Recursive  bool   `json:"recursive"`
	Hidden     bool   `json:"include_hidden"`
	File       string `json:"filepath"`
	Command    string `json:"command"`
}

// Call implements agent.Tool.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var a arguments
	if err := json.Unmarshal([]byte(inv.Call.Args), &a); err != nil {
		return agent.Result{}, err
	}
	if !slices.Contains(t.o.Capabilities, a.Capability) {
		return agent.Result{}, fmt.Errorf("%q is not one of the capabilities here%s; they are %s",
			a.Capability, closest.Hint(a.Capability, t.o.Capabilities), strings.Join(t.o.Capabilities, ", "))
	}
	result, err := t.do(ctx, inv, &a)
	if err != nil {
		return result, fmt.Errorf("%s: %w", a.Capability, err)
	}
	return result, nil
}

func (t *tool) do(ctx context.Context, inv *agent.Invocation, a *arguments) (agent.Result, error) {
	switch a.Capability {
	case "attach-file":
		part, err := t.o.Attach(inv, a.File)
		if err != nil {
			return agent.Result{}, err
		}
		return agent.Result{Parts: []agent.Part{part}}, nil
	case executeCommand:
		if strings.TrimSpace(a.Command) == "" {
			return agent.Result{}, fmt.Errorf("the argument command is missing")
		}
		if t.o.Accept != nil {
			if err := t.o.Accept(ctx, a.Command); err != nil {
				return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
			}
		}
		return t.o.Shell.Call(ctx, inv)
	}
	data, err := t.data(ctx, inv, a)
	if err != nil {
		return agent.Result{}, err
	}
	text, err := json.Marshal(map[string]any{"capability": a.Capability, "data": data})
	return agent.TextResult(string(text)), err
}

// Command implements agent.Commander.
func (t *tool) Command(inv *agent.Invocation) (argv []string, digest string) {
	if c, ok := t.o.Shell.(agent.Commander); ok && inv.Values()["capability"] == executeCommand {
		return c.Command(inv)
	}
	return nil, ""
}

// Sandbox implements agent.Sandboxed.
func (t *tool) Sandbox() string {
	if s, ok := t.o.Shell.(agent.Sandboxed); ok {
		return s.Sandbox()
	}
	return ""
}

// WorkDir implements agent.Located.
func (t *tool) WorkDir() string { return t.o.Dir }

func (t *tool) data(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	switch a.Capability {
	case "date":
		return date(), nil
	case "operating-system":
		return operatingSystem(), nil
	case "env-vars":
		return envNames(&t.o), nil
	case "running-user":
		return runningUser()
	case "hostname":
		return hostname()
	case "working-directory":
		return map[string]string{"path": t.o.Dir}, nil
	case "process-info":
		return processInfo(), nil
	case "uptime":
		return uptime()
	case "disk":
		return disk(t.o.Dir)
	case "own-session":
		return own(ctx, inv), nil
	case "list-directory":
		return t.o.List(inv, cmp.Or(a.Path, "."), a.Recursive, a.Hidden)
	}
	if t.o.Sessions == nil {
		return nil, fmt.Errorf("there is no folder of sessions")
	}
	switch a.Capability {
	case "search-sessions":
		words := strings.Fields(strings.ToLower(a.Query))
		if len(words) == 0 {
			return nil, fmt.Errorf("the argument query is missing")
		}
		found, total, err := t.o.Sessions.Search(ctx, words, t.o.MaxResults)
		return map[string]any{"query": a.Query, "results": orEmpty(found), "totalMatches": total}, err
	case "read-session":
		if a.Session == "" {
			return nil, fmt.Errorf("the argument session_id is missing")
		}
		return t.o.Sessions.Read(ctx, a.Session, Part{First: max(a.Offset, a.DropN), Last: a.TakeN, Max: a.Limit, Thinking: a.Thinking, Calls: a.Calls && t.o.ToolOutputs})
	}
	list, err := t.o.Sessions.List(ctx)
	if err != nil {
		return nil, err
	}
	if a.Capability == "list-sessions" {
		return map[string]any{"sessions": orEmpty(list[:min(len(list), t.o.MaxResults)]), "totalAccessible": len(list)}, nil
	}
	turns := 0
	for _, s := range list {
		turns += s.Turns
	}
	return map[string]any{"totalSessions": len(list), "totalTurnsAcrossAllSessions": turns}, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// own describes the session that makes the call, and what is left of its budget.
func own(ctx context.Context, inv *agent.Invocation) map[string]any {
	s := inv.SessionState()
	m := map[string]any{"sessionId": inv.Session, "agent": inv.Agent, "path": inv.Path, "turn": inv.Turn, "depth": inv.Level, "contextTokens": s.Tokens}
	if inv.Caller != nil {
		m["left"] = inv.Caller.Lease(ctx, inv)
	}
	return m
}

// filterTimeout is how long a filter of commands may take.
const filterTimeout = 10 * time.Second

// Accept runs the filter, a line for the shell, with a command on standard input, as
// agents-exe does, and returns an error unless it prints {"acceptance": "allowed"}.
func Accept(ctx context.Context, filter, command, dir string, env []string) error {
	ctx, stop := context.WithTimeoutCause(ctx, filterTimeout, fmt.Errorf("it gave no answer within %s", filterTimeout))
	defer stop()
	shell, err := process.LookPath("sh", env)
	if err != nil {
		return fmt.Errorf("commandFilter: %w", err)
	}
	out, stderr := spool.Output{MemoryOnly: true}, spool.Output{MemoryOnly: true}
	exit, err := process.Run(ctx, &process.Command{Path: shell, Args: []string{"-c", filter}, Dir: dir, Env: env, Stdin: strings.NewReader(command), Stdout: &out, Stderr: &stderr})
	if failure := exit.Failure(ctx, err); failure != nil {
		return fmt.Errorf("commandFilter: %w: %s", failure, strings.TrimSpace(stderr.Tail(1000)))
	}
	var answer struct{ Acceptance, Note string }
	text := bytes.TrimSpace(out.Head())
	switch err := json.Unmarshal(text, &answer); {
	case err != nil:
		return fmt.Errorf("commandFilter: it printed %.200q: want an object with acceptance and note", text)
	case answer.Acceptance == "allowed":
		return nil
	case answer.Acceptance != "refused":
		return fmt.Errorf("commandFilter: its acceptance is %q: want allowed or refused", answer.Acceptance)
	}
	return errors.New("the command was refused: " + cmp.Or(answer.Note, "commandFilter gave no reason"))
}
