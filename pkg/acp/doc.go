// Package acp defines the messages of the Agent Client Protocol, version 1, which editors
// use to talk to agents: newline-delimited JSON-RPC 2.0 on the standard input and output of
// the agent. The schema is schema/v1/schema.json of
// https://github.com/agentclientprotocol/agent-client-protocol; comments mark what is
// unstable there. Of version 2, a draft, only what the negotiation of a version needs is here.
//
// A [Conn] is one end of a connection: the agent (package acpserver) or the client (package
// acpclient).
//
//	c := acp.NewConn(os.Stdin, os.Stdout)
//	c.Request = func(method string, params json.RawMessage) acp.Answer { … }
//	err := c.Serve(ctx)
package acp

// Version is the version of the protocol.
const Version = 1

// The methods of agents and of clients.
const (
	MethodInitialize   = "initialize"
	MethodAuthenticate = "authenticate"
	MethodNew          = "session/new"
	MethodLoad         = "session/load"
	MethodResume       = "session/resume"
	MethodList         = "session/list"
	MethodClose        = "session/close"
	MethodPrompt       = "session/prompt"
	MethodCancel       = "session/cancel"
	MethodSetMode      = "session/set_mode"

	MethodUpdate     = "session/update"
	MethodPermission = "session/request_permission"
	MethodElicit     = "elicitation/create"

	MethodRead           = "fs/read_text_file"
	MethodWrite          = "fs/write_text_file"
	MethodTerminal       = "terminal/create"
	MethodTerminalOutput = "terminal/output"
	MethodTerminalWait   = "terminal/wait_for_exit"
	MethodTerminalKill   = "terminal/kill"
	MethodTerminalEnd    = "terminal/release"

	methodCancelRequest = "$/cancel_request" // either side
)

// Error codes: two of JSON-RPC, and those that the protocol adds.
const (
	MethodNotFound   = -32601
	InvalidParams    = -32602
	RequestCancelled = -32800
	AuthRequired     = -32000
	NotFound         = -32002
)
