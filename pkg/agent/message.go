package agent

import (
	"encoding/json"
	"strings"
)

// A Role says who speaks in a Message.
type Role string

// The roles of a conversation. The system prompt is no message: it belongs to
// the Agent and is sent with every Request.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one step of a conversation. It is plain data: a journal, a log
// and a provider all see the same value.
type Message struct {
	Role Role `json:"role"`
	// Parts is the content of a user or assistant message, in order.
	Parts []Part `json:"parts,omitempty"`
	// Calls are the tool calls that an assistant message asks for.
	Calls []ToolCall `json:"calls,omitempty"`
	// Results answer the Calls of the message before, one for each, in their
	// order. Only a message of RoleTool has them.
	Results []ToolResult `json:"results,omitempty"`
}

// A PartKind tells the kinds of Part apart.
type PartKind string

// The kinds of Part.
const (
	PartText      PartKind = "text"
	PartReasoning PartKind = "reasoning"
	PartMedia     PartKind = "media"
	// PartCalls is the text in which a model without function calling wrote its calls:
	// they are in Message.Calls. See package textcall.
	PartCalls PartKind = "calls"
)

// A Part is a piece of content.
type Part struct {
	Kind PartKind `json:"kind"`
	// Text is the content of a text or reasoning part. It is valid UTF-8.
	Text string `json:"text,omitempty"`
	// MIME and Data are the content of a media part; Name may name its file.
	MIME string `json:"mime,omitempty"`
	Data []byte `json:"data,omitempty"`
	Name string `json:"name,omitempty"`
	// Extra is what a provider wants back unchanged with this part (a
	// signature of reasoning, say). Nobody else looks inside.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Blob stands in a journal's file for a Text or Data that is too large for
	// its line: "sha256:" and the hash of what is kept elsewhere. It is empty
	// everywhere else.
	Blob string `json:"blob,omitempty"`
}

// A ToolCall is a model's request to run a tool.
type ToolCall struct {
	// ID is unique in its session; the result carries it back.
	ID string `json:"id"`
	// Name is the name that the model was shown (ToolSpec.Name).
	Name string `json:"name"`
	// Args is what the model sent, meant to be one JSON object. It is kept
	// as it came, since it may be no JSON at all.
	Args string `json:"args"`
	// Extra is what a provider wants back unchanged with this call.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// A Result is what a tool gives back to the model.
type Result struct {
	Parts []Part `json:"parts,omitempty"`
	// End, if it is not empty, ends the run once all calls of the turn have results:
	// with StatusOK, and the text is the answer as if the model had given it, or with
	// another Status, and the text is the reason. The first such result of a turn
	// counts, and none that is returned with an error.
	End Status `json:"end,omitempty"`
	// Task is what the call added to the plan, or changed in it.
	Task *Task `json:"task,omitempty"`
	// Toolgroups are those that the call activates (true) or deactivates.
	Toolgroups Toolgroups `json:"toolgroups,omitempty"`
	// Handle names the agent that goes on with the call in the background.
	Handle string `json:"handle,omitempty"`
	// Workspace is where the agent that the call ran has worked, and what it did there; nil if
	// it had no workspace. It is also there beside an error.
	Workspace *Workspace `json:"workspace,omitempty"`
}

// A Workspace is a folder in which one call of an agent works, and what the runtime found there
// when the call had ended.
type Workspace struct {
	Kind   string `json:"kind"` // worktree or copy
	Path   string `json:"path"`
	Branch string `json:"branch,omitempty"`
	Base   string `json:"base,omitempty"` // the commit that it began with
	// Commits are those behind Base, newest first, as "ID SUBJECT"; Stat is what git diff
	// --stat prints about them, or of a copy how many files differ.
	Commits []string `json:"commits,omitempty"`
	Stat    string   `json:"stat,omitempty"`
	// Uncommitted are files that changed and are in no commit; of a copy all that differ.
	Uncommitted []string `json:"uncommitted,omitempty"`
}

// Toolgroups says which groups of tools are active in a session, or what a call changes.
type Toolgroups map[string]bool

// A ToolResult is the answer to one ToolCall.
type ToolResult struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Parts  []Part `json:"parts,omitempty"`
	// Failed marks a result that describes a failure.
	Failed bool `json:"failed,omitempty"`
	// End, Task, Toolgroups, Handle and Workspace are those of the Result.
	End        Status     `json:"end,omitempty"`
	Task       *Task      `json:"task,omitempty"`
	Toolgroups Toolgroups `json:"toolgroups,omitempty"`
	Handle     string     `json:"handle,omitempty"`
	Workspace  *Workspace `json:"workspace,omitempty"`
}

// Text is a text part.
func Text(s string) Part { return Part{Kind: PartText, Text: s} }

// UserText is a user message of one text part.
func UserText(s string) Message {
	return Message{Role: RoleUser, Parts: []Part{Text(s)}}
}

// TextResult is a Result of one text part.
func TextResult(s string) Result { return Result{Parts: []Part{Text(s)}} }

// Text joins the text parts of m; reasoning and media are left out.
func (m Message) Text() string { return joinText(m.Parts) }

// Text joins the text parts of r.
func (r ToolResult) Text() string { return joinText(r.Parts) }

// Text joins the text parts of r.
func (r Result) Text() string { return joinText(r.Parts) }

func joinText(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if p.Kind == PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "")
}
