// Package mcpclient makes an MCP server a source of tools.
//
//   - A [Server] says how to reach one: a program that speaks MCP on its standard
//     input and output, or the address of one that speaks it over HTTP.
//   - [Open] makes a [Toolset] of it. Nothing is started before it is needed. The
//     tools of a server that is missing, slow, broken or dead fail with a clear
//     error; other tools are not affected. The server is started again when it is
//     needed, with growing pauses.
//   - A [Tool] is an agent.Tool. Calls run at the same time and are never
//     repeated; the schema that the model sees is the server's, byte for byte.
//   - Toolset.Prompts and Toolset.Prompt are the server's prompts. Its
//     resources are two more tools.
//
// The handshake finds the protocol. A server of 2026-07-28 answers
// server/discover, an older one needs initialize, and neither says in advance
// which it is. So server/discover comes first. A server that does not answer
// within [ProbeWait] gets initialize as well, and the first useful answer
// decides: a slow server of either kind is understood, and one that ignores
// unknown methods costs ProbeWait once. A server that ends at the unknown
// request is started again and gets initialize only. Later starts use what was
// found. Server.Protocol skips the question.
//
// A server is used through a conn (conn.go): requests and their answers as messages of
// package jsonrpc, over a transport, which is a program's standard input and output
// (stdio.go) or streamable HTTP (http.go, events.go). What the server says is kept as
// it came: schemas reach the model byte for byte.
//
// Of the library, github.com/mark3labs/mcp-go v1.2.1, package mcp is used: the versions
// of the protocol and how they are negotiated, its methods, and its rules for headers
// (SEP-2243). Its client and its transports are not, because of what they do; each has
// a test here that fails with them:
//
//   - decode schemas and results into types that lose parts of them and round numbers
//     (TestSchemasPassUntouched, TestResultsComeFromTheServerAsTheyAre)
//   - wait five seconds for server/discover before initialize
//     (TestEveryKindOfServerIsUnderstood, "ignores")
//   - take lines, bodies and events of any length, and drop what they cannot decode, so
//     that a call waits for it (TestOddMessages, TestOddAnswersOverHTTP)
//   - write into a full pipe whatever the context says (TestQueueDoesNotBlock)
//   - start programs without a process group (TestNothingSurvivesClose)
//   - cancel in a goroutine that outlives the call, and over HTTP with older protocols
//     not at all (TestCancelledCallIsToldToTheServer, TestCancelOverHTTP)
//   - answer a server's roots/list beside the calls that follow
//     (TestRootsAreSentBeforeTheFirstCall)
//   - take 404 for the end of a session whatever it answers
//     (TestUnknownMethodIsNoLostSession)
//   - never speak 2026-07-28 over HTTP when they listen for notifications of older
//     servers (TestListChangedOverEveryTransport)
//
// All tools of a server:
//
//	set := mcpclient.Open(mcpclient.Server{Name: "files", Executable: "npx",
//		Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "."}, Env: env},
//		mcpclient.Options{Name: toolname.Join})
//	defer set.Close(ctx)
//	a.Toolsets = append(a.Toolsets, set)
package mcpclient
