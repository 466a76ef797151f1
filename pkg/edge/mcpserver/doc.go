// Package mcpserver serves agents as tools of the Model Context Protocol.
//
//   - A [Server] offers agents (SetAgents), each as a tool that takes a prompt, or
//     tools themselves (SetTools), so that the client's own model is the agent;
//     prompts (SetPrompts); and resources (SetResources), each kind a [Collection].
//   - Serve speaks the protocol over a pair of streams, one message a line;
//     ServeListener speaks it over HTTP with many clients.
//
// An agent's tool is named by its slug. Its result is the answer and, as a text of
// its own behind it, the session; a further call that gives this session continues
// the conversation. The last conversations are kept in memory as long as the
// Server. How the run ended is in the result's _meta ([MetaStatus]).
//
// Cancelling a request, and the end of the connection, end the run with all that
// it started. Progress notifications report what happens in a run if the
// client asked for them.
//
// The library, github.com/mark3labs/mcp-go v1.2.1, dispatches requests to methods. Its
// servers for streams and HTTP are not used, because of what they do; each has a test
// here that fails with them:
//
//   - lose the answers that are under way at the end of the input
//     (TestOneShotInputGetsEveryAnswer)
//   - run five calls at a time (TestCallsRunAtTheSameTime)
//   - send progress after the answer or never (TestProgressComesBeforeTheAnswer)
//   - take lines of any length (TestLineThatIsTooLongIsRefusedByItsID)
//   - decode ids and arguments into types that round numbers
//     (TestToolsGetTheArgumentsAsTheyCame)
//   - have no tokens and no limits over HTTP
//     (TestHTTPClientsWithoutATokenKeepNobodyOut)
//   - do not end calls whose client is gone (TestHTTPCallEnds)
//
// So a conn (conn.go) takes messages of package jsonrpc, passes each to the library, and
// keeps the open requests; stdio.go and http.go bring the messages, and take the answers
// to the client, each through an outlet.
//
// A call that takes long continues as a task for clients that support the extension, which
// the library does not have: tasks.go.
//
// A tool may write its result as the protocol has it ([ResultType]), or ask the client
// first. The library asks clients of older protocols during the call, and lets clients of
// 2026-07-28 call again.
//
// Agents on standard streams:
//
//	s := mcpserver.New(mcpserver.Options{Name: "agents", Start: h.Start}) // h is a host.Host
//	s.SetAgents([]mcpserver.Agent{{Name: a.Slug, Agent: a}})
//	err := s.Serve(ctx, os.Stdin, os.Stdout)
//
// The same over HTTP, for clients that have the token:
//
//	l, err := net.Listen("tcp", "127.0.0.1:8080")
//	…
//	err = s.ServeListener(ctx, l, mcpserver.HTTPOptions{Tokens: []string{token}})
package mcpserver
