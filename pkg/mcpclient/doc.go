// Package mcpclient makes an MCP server a source of tools.
//
//   - A [Server] says how to reach one: a program that speaks MCP on its standard
//     input and output, or the address of one that speaks it over HTTP.
//   - [Open] makes a [Toolset] of it. Nothing is started before it is needed; a
//     server that is missing, slow, broken or dead costs its own tools a clear
//     error and nothing else, and is started again when it is needed, with
//     pauses that grow.
//   - A [Tool] is an agent.Tool. Calls run at the same time and are never
//     repeated; the schema that the model sees is the server's, byte for byte.
//   - Toolset.Prompts and Toolset.Prompt are the server's prompts. Its
//     resources are two more tools.
//
// Which protocol is spoken is found out like this. A server of 2026-07-28 is
// asked server/discover, an older one must be greeted with initialize, and none
// says beforehand which it is. So server/discover comes first. A server that has
// not answered within [ProbeWait] gets initialize as well, and the first useful
// answer decides: a slow server of either kind is understood, and one that
// ignores what it does not know costs ProbeWait once. A server that ends at the
// unknown request is started a second time and greeted with initialize at once.
// What was found is remembered for later starts. Server.Protocol spares the
// question.
//
// The library, github.com/mark3labs/mcp-go, speaks the protocol; what its users
// must know about it is dealt with in one place each:
//
//   - It runs programs without a process group: here package process starts them
//     (stdio.go).
//   - It accepts lines of any length, takes any JSON for a message, and a write
//     into a full pipe blocks whatever the context says (lines.go, queue.go).
//   - It decodes schemas and results into types that lose parts of them: what
//     the server sent is caught on its way (tap.go).
//   - It cancels a request in a goroutine that nobody waits for, and not at all
//     over HTTP with older protocols (tap.go).
//   - It asks server/discover with a wait of five seconds (probe.go).
//   - It tells of notifications on the goroutine that reads: nothing here but
//     notes them there (conn.go).
//   - Listening for notifications over HTTP rules newer protocols out (tap.go).
//
// All tools of a server:
//
//	set := mcpclient.Open(mcpclient.Server{Name: "files", Executable: "npx",
//		Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "."}, Env: env},
//		mcpclient.Options{Name: exectool.Name})
//	defer set.Close(ctx)
//	a.Toolsets = append(a.Toolsets, set)
package mcpclient
