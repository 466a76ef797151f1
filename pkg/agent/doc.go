// Package agent holds the vocabulary of the program and its state machine: what a
// run is made of, and what comes next in it. It starts no goroutine, reads no clock
// and does no I/O; package runner does what the machine asks for. It imports nothing
// else of this module but leaves; everything else imports it.
//
// A guided tour, bottom up:
//
//   - A [Message] is made of [Part]s. A model's message may hold [ToolCall]s;
//     each is answered by one [ToolResult].
//   - An [Event] is something that happened in a conversation. A [Session] is
//     the sum of its events and a state machine: Session.Next says what it
//     needs, methods such as Session.Answered turn what came of that into
//     events, and Session.Apply is the only way in which it changes.
//   - A [Provider] is a model, a [Tool] something that it can call, a [Toolset]
//     a source of tools. functool.New makes one of a Go function. An [Agent] is a
//     model with a system prompt and toolsets, without any running state.
//   - An [Invocation] is one call of a tool on its way, and its [CallingRun] the run that
//     makes it. A [Policy] answers with a [Verdict] whether the call may run; what an
//     agent with all agents below it may do and consume is in its [Lease].
//   - A [Subagent] is an agent as a tool. Its calls are sessions of their own, run
//     by the run that makes the call.
//   - A [Start] begins a run, and an [Outcome] says how it ended.
//
// A program that runs an agent needs package runner too, whose comment has an example.
//
// Decorators of tools and toolsets ([Wrap], [WrapToolset], or a type with a method
// Unwrap() any) keep what else the inner one can do: see [As].
package agent
