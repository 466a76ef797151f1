// Package work does what the workflow of package flow asks for: the steps and calls of
// runs. A Worker takes activities from a task queue. Each activity reads the record of its
// run, rebuilds the session of its agent, has an agent.Runner do one step or one call, and
// appends to the record what came of it. So any worker can continue any run.
//
// An activity that a worker loses is repeated by another one. The record decides what that
// one does: a call whose start is recorded is not started again unless its tool permits
// that, and a writer that another one has overtaken stops without recording anything.
//
// The keys, the environment and the sandboxes are those of the worker's host.
package work
