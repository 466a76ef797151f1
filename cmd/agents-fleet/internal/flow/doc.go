// Package flow is the workflow of a run: a deterministic loop of steps and calls. What a
// step or a call does is decided in activities by package agent's machine; the workflow
// only knows which calls are open and how the run ended. No message, prompt, result or key
// is in a workflow's history: activities take and return a Position in the record of the
// run, keys of calls, names of tools and a status.
//
//	step ▶ calls, at the same time ▶ step ▶ … ▶ the end
//
// A call of a sub-agent is a child workflow, whose id is the sub-agent's session. Its call
// activity runs twice: the first one opens the session, the second one records its result.
//
// The package imports nothing that does I/O.
package flow
