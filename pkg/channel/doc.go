// Package channel connects a running agent and the program that directs it, its holder,
// over two byte streams: the standard input and output of a process, on this host, in a
// container or over ssh. The protocol is one JSON object per line. Messages to the agent
// direct the run (start, input, compact, reply, result, ack, cancel); messages from it are
// its events. Some can be for one agent of the tree, by its session: [Conn.Direct].
//
// [Open] is the side of the holder. [Call] is the side of a holder that is an agent
// itself: the run answers one of its tool calls. [Server] is the side of the agent.
// Within one program, runner.Runner.Start does the same without streams.
// docs/nesting.md describes the protocol.
package channel
