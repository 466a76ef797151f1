// Package flow has the workflow of a run: a deterministic loop of steps and calls. Activities
// decide with package agent's machine what a step or a call does; the workflow knows only
// which calls are open and how the run ended. A workflow's history contains no message,
// prompt, result or key: activities take and return a Position in the record of the run, keys
// of calls, names of tools and a status.
//
//	step ▶ calls, at the same time ▶ step ▶ … ▶ the end
//
// A call of a sub-agent is a child workflow whose id is the sub-agent's session. Its call
// activity runs twice: first to open the session, then to record the result. For a sub-agent in the
// background, the second run may record a handle instead, and the child outlives the turn.
//
// The package imports nothing that does I/O.
package flow
