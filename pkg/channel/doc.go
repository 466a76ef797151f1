// Package channel speaks with a running agent over two byte streams: the standard
// input and output of a process, on this host, in a container or behind ssh. The
// protocol is one JSON object a line. What goes in directs the run (start, input,
// reply, result, ack, cancel); what comes out are its events.
//
// Whoever directs a run is its holder. [Open] is the holder's side of the streams and
// [Call] that of a holder which is itself an agent: the run answers one of its tool
// calls. [Serve] is the side of the agent. In Go without streams the same is
// agent.Runner.Start; docs/nesting.md describes the protocol.
package channel
