package step

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// An ActionKind tells the kinds of Action apart. Its names are stable.
type ActionKind string

// What an agent can do, with the fields of the Action that belong to it.
const (
	Run        ActionKind = "run"             // a command of the shell: Command
	Kill       ActionKind = "kill"            // end a command in the background: ID
	RunPython  ActionKind = "run_python_cell" // a cell of the Python session: Code
	Read       ActionKind = "read"            // a file: Path, and optionally lines Start to End
	Write      ActionKind = "write"           // a file: Path, Content
	Browse     ActionKind = "browse"          // the text of a web page: URL
	Recall     ActionKind = "recall"          // notes and past sessions: Query, Topic of notes, Where (notes, sessions or all)
	Remember   ActionKind = "remember"        // keep a note for Recall: Note, and optionally Topic
	AddTask    ActionKind = "add_task"        // to the plan: ID, Title, and optionally Parent
	ModifyTask ActionKind = "modify_task"     // of the plan: ID, and State, Title or Note
	Think      ActionKind = "think"           // keep a thought: Text
	Talk       ActionKind = "talk"            // answer the user, who may reply: Text; or with Continue, only tell it
	Finish     ActionKind = "finish"          // end the run with an answer: Text
	Reject     ActionKind = "reject"          // end the run without one: Text is the reason
	Message    ActionKind = "message"         // ask a sub-agent: To is its slug, Text the prompt
)

// An Action is what an agent does in one step. Kind says which fields it has.
type Action struct {
	Kind    ActionKind `json:"action"`
	Command string     `json:"command,omitempty"`
	ID      string     `json:"id,omitempty"`
	Code    string     `json:"code,omitempty"`
	Path    string     `json:"path,omitempty"`
	Content string     `json:"content,omitempty"`
	Start   int        `json:"start,omitempty"`
	End     int        `json:"end,omitempty"`
	URL     string     `json:"url,omitempty"`
	Query   string     `json:"query,omitempty"`
	Where   string     `json:"where,omitempty"`
	Topic   string     `json:"topic,omitempty"`
	Title   string     `json:"title,omitempty"`
	Parent  string     `json:"parent,omitempty"`
	State   string     `json:"state,omitempty"`
	Note    string     `json:"note,omitempty"`
	Text    string     `json:"text,omitempty"`
	To      string     `json:"to,omitempty"`
	// Continue makes Talk a step like the others: the run does not end.
	Continue bool `json:"continue,omitempty"`
}

// A rule is how actions of a kind become calls and their results observations. The
// fields of an action are the arguments of the call.
type rule struct {
	kind     ActionKind
	tools    []string // the first that the agent has is called
	required []string
	optional []string
	gives    ObservationKind
}

const content = "content" // the only required field that may be empty

var rules = [...]rule{
	{Run, []string{"bash", "bash_bash"}, []string{"command"}, nil, Output},
	{Kill, []string{"bash_kill"}, []string{"id"}, nil, Output},
	{RunPython, []string{"python"}, []string{"code"}, nil, Output},
	{Read, []string{"bash_read_file", "read_file"}, []string{"path"}, []string{"start", "end"}, FileRead},
	{Write, []string{"bash_write_file", "write_file"}, []string{"path", content}, nil, FileWritten},
	{Browse, []string{"bash_fetch_url", "fetch_url"}, []string{"url"}, nil, Browser},
	{Recall, []string{"bash_recall", "recall"}, nil, []string{"query", "topic", "where"}, Recalled},
	{Remember, []string{"bash_remember", "remember"}, []string{"note"}, []string{"topic"}, Success},
	{AddTask, []string{"add_task"}, []string{"id", "title"}, []string{"parent"}, Success},
	{ModifyTask, []string{"modify_task"}, []string{"id"}, []string{"state", "title", "note"}, Success},
	{Think, []string{"think"}, []string{"text"}, nil, Success},
	{Talk, nil, []string{"text"}, []string{"continue"}, Success},
	{Finish, []string{"finish"}, []string{"text"}, nil, Success},
	{Reject, []string{"reject"}, []string{"text"}, nil, Success},
	{Message, nil, []string{"to", "text"}, nil, Output},
}

// told is the thought that a Talk with Continue becomes, because a run continues only after a
// call.
const told = "I told this to the user."

// expert begins the names of the tools that are sub-agents.
const expert = "expert"

func ruleOf(kind ActionKind) *rule {
	for i := range rules {
		if rules[i].kind == kind {
			return &rules[i]
		}
	}
	return nil
}

// Tool is the name of the tool that an action calls; "" if it calls none. has reports
// which tools the agent has: actions that several tools fit call the first of these.
func Tool(a Action, has func(name string) bool) string {
	r := ruleOf(a.Kind)
	switch {
	case a.Kind == Message:
		return toolname.Join(expert, a.To)
	case a.Continue:
		r = ruleOf(Think)
	case r == nil || len(r.tools) == 0:
		return ""
	}
	if i := slices.IndexFunc(r.tools, has); i >= 0 {
		return r.tools[i]
	}
	return r.tools[0]
}

// Check returns an error if the kind of a is unknown, a field is missing, or a field does
// not belong to the kind.
func (a Action) Check() error {
	r := ruleOf(a.Kind)
	if r == nil {
		var kinds []string
		for _, r := range rules {
			kinds = append(kinds, string(r.kind))
		}
		return fmt.Errorf("there is no action %.50q; there are %s", a.Kind, strings.Join(kinds, ", "))
	}
	fields := a.fields()
	for _, name := range r.required {
		if fields[name] == nil && name != content {
			return fmt.Errorf("action %s: %s is missing", a.Kind, name)
		}
		delete(fields, name)
	}
	for name := range fields {
		if !slices.Contains(r.optional, name) {
			return fmt.Errorf("action %s: %s does not belong to it", a.Kind, name)
		}
	}
	return nil
}

// fields are those of a that are not empty, without the kind.
func (a Action) fields() map[string]any {
	text, _ := json.Marshal(a) // strings and numbers
	var fields map[string]any
	_ = json.Unmarshal(text, &fields) // as above
	delete(fields, "action")
	return fields
}

// UnmarshalJSON reads an action. Unknown members, and what Check finds, are errors.
func (a *Action) UnmarshalJSON(data []byte) error {
	type plain Action
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var p plain
	err := dec.Decode(&p)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the wrong type, a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("something follows the action")
	}
	*a = Action(p)
	return a.Check()
}

// args are the arguments of the call that a becomes.
func (a Action) args() string {
	fields := a.fields()
	switch a.Kind {
	case Write:
		fields[content] = a.Content
	case Message:
		fields = map[string]any{"prompt": a.Text}
	case Talk:
		fields = map[string]any{"text": told}
	}
	text, _ := json.Marshal(fields) // as above
	return string(text)
}

// actionOf is the action that a call of a tool was.
func actionOf(tool, args string) (Action, bool) {
	if to, ok := strings.CutPrefix(tool, expert+"_"); ok {
		var a struct{ Prompt string }
		err := json.Unmarshal([]byte(args), &a)
		return Action{Kind: Message, To: to, Text: a.Prompt}, err == nil
	}
	for _, r := range rules {
		if !slices.Contains(r.tools, tool) {
			continue
		}
		var fields map[string]any
		if json.Unmarshal([]byte(args), &fields) != nil || fields == nil {
			return Action{}, false
		}
		fields["action"] = r.kind
		text, _ := json.Marshal(fields) // it came from JSON
		var a Action
		err := json.Unmarshal(text, &a)
		return a, err == nil
	}
	return Action{}, false
}
