package acp

import (
	"bytes"
	"encoding/json"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// An Implementation names a program.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// A Flag is a capability: present, or nil.
type Flag struct{}

// ClientCapabilities are what a client offers.
type ClientCapabilities struct {
	FS struct {
		ReadTextFile  bool `json:"readTextFile"`
		WriteTextFile bool `json:"writeTextFile"`
	} `json:"fs"`
	Terminal    bool         `json:"terminal"`
	Elicitation *Elicitation `json:"elicitation,omitempty"`
	Meta        struct {
		// TerminalOutput is an extension of Zed: the client shows the output of the
		// agent's own commands as terminals. It is in the Meta of updates.
		TerminalOutput bool `json:"terminal_output"`
	} `json:"_meta,omitzero"`
}

// An Elicitation says which questions a client can show.
type Elicitation struct {
	Form *Flag `json:"form,omitempty"`
	URL  *Flag `json:"url,omitempty"`
}

// InitializeRequest is the first request of a client.
type InitializeRequest struct {
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities"`
	ClientInfo         *Implementation    `json:"clientInfo,omitempty"`
	// Capabilities are where version 2 has them. It has no FS and no Terminal.
	Capabilities ClientCapabilities `json:"capabilities,omitzero"`
}

// AgentCapabilities are what an agent offers.
type AgentCapabilities struct {
	LoadSession bool `json:"loadSession"`
	Prompt      struct {
		Image           bool `json:"image"`
		Audio           bool `json:"audio"`
		EmbeddedContext bool `json:"embeddedContext"`
	} `json:"promptCapabilities"`
	MCP struct {
		HTTP bool `json:"http"`
		SSE  bool `json:"sse"`
	} `json:"mcpCapabilities"`
	Session struct {
		List   *Flag `json:"list,omitempty"`
		Resume *Flag `json:"resume,omitempty"`
		Close  *Flag `json:"close,omitempty"`
	} `json:"sessionCapabilities"`
}

// InitializeResponse answers it.
type InitializeResponse struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []Mode            `json:"authMethods"`
	AgentInfo         *Implementation   `json:"agentInfo,omitempty"`
	// Info is AgentInfo in version 2, where it is required. A client that asks for version 2 may
	// read the answer by the schema of that version before it looks at ProtocolVersion.
	Info *Implementation `json:"info,omitempty"`
}

// A Pair is a variable of the environment or a header.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An MCPServer is a server that the client wants the agent to use. Type is "http" or "sse",
// and empty for a program.
type MCPServer struct {
	Type    string   `json:"type,omitempty"`
	Name    string   `json:"name"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Env     []Pair   `json:"env,omitempty"`
	URL     string   `json:"url,omitempty"`
	Headers []Pair   `json:"headers,omitempty"`
}

// SessionRequest opens a session: session/new without SessionID, session/load and
// session/resume with it.
type SessionRequest struct {
	SessionID  string      `json:"sessionId,omitempty"`
	CWD        string      `json:"cwd"`
	MCPServers []MCPServer `json:"mcpServers"`
}

// SessionResponse answers it. Only that of session/new has SessionID.
type SessionResponse struct {
	SessionID string `json:"sessionId,omitempty"`
	Modes     *Modes `json:"modes,omitempty"`
}

// Modes are the available modes of a session and the current one.
type Modes struct {
	Current   string `json:"currentModeId"`
	Available []Mode `json:"availableModes"`
}

// A Mode is a mode of a session, or a way to sign in.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// SetModeRequest is session/set_mode.
type SetModeRequest struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

// ListRequest is session/list. The answer is not split into pages.
type ListRequest struct {
	CWD string `json:"cwd,omitempty"`
}

// ListResponse answers it.
type ListResponse struct {
	Sessions []SessionInfo `json:"sessions"`
}

// SessionInfo describes a session.
type SessionInfo struct {
	SessionID string `json:"sessionId"`
	CWD       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"` // ISO 8601
}

// SessionID is the parameter of session/cancel and session/close.
type SessionID struct {
	SessionID string `json:"sessionId"`
}

// PromptRequest is session/prompt.
type PromptRequest struct {
	SessionID string  `json:"sessionId"`
	Prompt    []Block `json:"prompt"`
}

// PromptResponse ends the turn that the prompt began. Usage is unstable.
type PromptResponse struct {
	StopReason string `json:"stopReason"`
	Usage      *Usage `json:"usage,omitempty"`
}

// Usage is the usage of a session so far.
type Usage struct {
	Total     int `json:"totalTokens"`
	Input     int `json:"inputTokens"`
	Output    int `json:"outputTokens"`
	Thought   int `json:"thoughtTokens"`
	CacheRead int `json:"cachedReadTokens"`
}

// Why a turn stopped.
const (
	EndTurn         = "end_turn"
	MaxTokens       = "max_tokens"
	MaxTurnRequests = "max_turn_requests"
	Refusal         = "refusal"
	Cancelled       = "cancelled"
)

// A Block is a piece of content. Type says which fields it has.
type Block struct {
	Type     string    `json:"type"` // text, image, audio, resource_link or resource
	Text     *string   `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"` // base64
	MIMEType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
}

// A Resource is an embedded text or blob.
type Resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *string `json:"blob,omitempty"`
}

// Raw returns v as JSON.
func Raw(v any) json.RawMessage {
	text, err := jsonrpc.Encode(v)
	if err != nil {
		return nil // the types of this package always encode
	}
	return bytes.TrimSpace(text)
}

// TextBlock returns a block of text.
func TextBlock(text string) *Block { return &Block{Type: "text", Text: &text} }

// A Notification is session/update.
type Notification struct {
	SessionID string `json:"sessionId"`
	Update    Update `json:"update"`
}

// An Update reports an event of a session. Kind says which fields it has.
type Update struct {
	Kind string `json:"sessionUpdate"`
	// Content is the Block of a chunk of a message, or the []CallContent of a call.
	Content  json.RawMessage `json:"content,omitempty"`
	Entries  []PlanEntry     `json:"entries,omitzero"`
	Commands []Command       `json:"availableCommands,omitzero"`
	ModeID   string          `json:"currentModeId,omitempty"`
	Used     *int            `json:"used,omitempty"`
	Size     *int            `json:"size,omitempty"`
	Cost     *Cost           `json:"cost,omitempty"`
	Meta     map[string]any  `json:"_meta,omitempty"`
	Call
}

// The kinds of updates.
const (
	UserChunk       = "user_message_chunk"
	AgentChunk      = "agent_message_chunk"
	ThoughtChunk    = "agent_thought_chunk"
	ToolCall        = "tool_call"
	ToolCallUpdate  = "tool_call_update"
	PlanUpdate      = "plan"
	CommandsUpdate  = "available_commands_update"
	ModeUpdate      = "current_mode_update"
	UsageUpdate     = "usage_update"
	SessionInfoKind = "session_info_update"
)

// A Call is a tool call of the agent, or a change of one.
type Call struct {
	ID        string          `json:"toolCallId,omitempty"`
	Title     string          `json:"title,omitempty"` // of a session_info_update too
	Kind      string          `json:"kind,omitempty"`
	Status    string          `json:"status,omitempty"`
	Locations []Location      `json:"locations,omitempty"`
	RawInput  json.RawMessage `json:"rawInput,omitempty"`
	RawOutput json.RawMessage `json:"rawOutput,omitempty"`
}

// The states of a call.
const (
	Pending    = "pending"
	InProgress = "in_progress"
	Completed  = "completed"
	Failed     = "failed"
)

// Kinds are the kinds of calls.
var Kinds = [...]string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}

// CallContent is what a call shows. Type says which fields it has: content, diff or terminal.
type CallContent struct {
	Type       string  `json:"type"`
	Content    *Block  `json:"content,omitempty"`
	Path       string  `json:"path,omitempty"`
	OldText    *string `json:"oldText,omitempty"`
	NewText    *string `json:"newText,omitempty"`
	TerminalID string  `json:"terminalId,omitempty"`
}

// A Location is a file that a call concerns.
type Location struct {
	Path string `json:"path"`
}

// A PlanEntry is a task of the agent's plan.
type PlanEntry struct {
	Content  string `json:"content"`
	Priority string `json:"priority"` // high, medium or low
	Status   string `json:"status"`   // pending, in_progress or completed
}

// A Command is a slash command.
type Command struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Input       map[string]string `json:"input,omitempty"` // "hint": what follows it
}

// Cost is what a session has cost.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"` // ISO 4217
}

// PermissionRequest is session/request_permission.
type PermissionRequest struct {
	SessionID string     `json:"sessionId"`
	ToolCall  CallUpdate `json:"toolCall"`
	Options   []Option   `json:"options"`
}

// A CallUpdate is a call with its content.
type CallUpdate struct {
	Call
	Content []CallContent `json:"content,omitempty"`
}

// An Option is an answer that the client may give.
type Option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// The kinds of options.
const (
	AllowOnce    = "allow_once"
	AllowAlways  = "allow_always"
	RejectOnce   = "reject_once"
	RejectAlways = "reject_always"
)

// PermissionResponse answers it.
type PermissionResponse struct {
	Outcome struct {
		Outcome  string `json:"outcome"` // selected or cancelled
		OptionID string `json:"optionId,omitempty"`
	} `json:"outcome"`
}

// Choose answers a PermissionRequest with an option; an empty option means none.
func Choose(option string) (r PermissionResponse) {
	if r.Outcome.Outcome, r.Outcome.OptionID = "selected", option; option == "" {
		r.Outcome.Outcome = Cancelled
	}
	return r
}

// ElicitRequest is elicitation/create: a form, or a URL to open.
type ElicitRequest struct {
	SessionID     string          `json:"sessionId"`
	Mode          string          `json:"mode"` // form or url
	Message       string          `json:"message"`
	Schema        json.RawMessage `json:"requestedSchema,omitempty"`
	URL           string          `json:"url,omitempty"`
	ElicitationID string          `json:"elicitationId,omitempty"`
}

// ElicitResponse answers it.
type ElicitResponse struct {
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"`
}

// A FileRequest is fs/read_text_file, which reads Limit lines from Line (1 is the first), or
// fs/write_text_file, which writes Content.
type FileRequest struct {
	SessionID string  `json:"sessionId,omitempty"`
	Path      string  `json:"path"` // absolute
	Line      int     `json:"line,omitempty"`
	Limit     *int    `json:"limit,omitempty"`
	Content   *string `json:"content,omitempty"`
}

// A TerminalRequest is a request of a method terminal/*. The fields after TerminalID are
// those of terminal/create, which has no TerminalID.
type TerminalRequest struct {
	SessionID  string   `json:"sessionId,omitempty"`
	TerminalID string   `json:"terminalId,omitempty"`
	Command    string   `json:"command,omitempty"` // a command line, or with Args a program
	Args       []string `json:"args,omitempty"`
	Env        []Pair   `json:"env,omitempty"`
	CWD        string   `json:"cwd,omitempty"` // absolute
	Limit      *int     `json:"outputByteLimit,omitempty"`
}

// A TerminalOutput answers terminal/output. Exit is nil while the command runs.
type TerminalOutput struct {
	Output    string        `json:"output"`
	Truncated bool          `json:"truncated"`
	Exit      *TerminalExit `json:"exitStatus,omitempty"`
}

// A TerminalExit is how a command ended. It answers terminal/wait_for_exit.
type TerminalExit struct {
	Code   *int   `json:"exitCode,omitempty"`
	Signal string `json:"signal,omitempty"`
}
