// Package mcpserver serves agents as tools of the Model Context Protocol.
//
//   - A [Server] offers agents (SetAgents), each as a tool that takes a prompt, or
//     tools themselves (SetTools), so that the client's own model is the agent; and
//     prompts (SetPrompts).
//   - Serve speaks the protocol over a pair of streams, one message a line.
//
// An agent's tool is named by its slug. Its result is the answer and, as a text of
// its own behind it, the session; a further call that gives this session continues
// the conversation. The last conversations are kept in memory as long as the
// Server. How the run ended is in the result's _meta ([MetaStatus]).
//
// Cancelling a request, and the end of the connection, end the run with all that
// it started. What happens in a run is told by progress notifications if the
// client asked for them.
//
// The library, github.com/mark3labs/mcp-go, knows the protocol; its way of serving
// standard streams is not used, because it loses the answers that are under way at
// the end of the input, runs five calls at a time, sends progress behind answers or
// never, takes lines of any length, and keeps one session for the whole process. It
// also decodes ids and arguments into types that round numbers. So reading,
// dispatching, cancelling and writing are done here (conn.go, message.go), and each
// message is handed to the library's dispatcher.
//
// Agents on standard streams:
//
//	s := mcpserver.New(mcpserver.Options{Name: "agents"})
//	s.SetAgents([]mcpserver.Agent{{Name: a.Slug, Agent: a}})
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
package mcpserver
