// Package work executes the steps and calls that the workflow of package flow schedules. A
// Worker takes activities from a task queue. Each activity reads the record of its run,
// rebuilds the session of its agent, has a runner.Runner do one step or one call, and appends
// the result to the record. So any worker can continue any run.
//
// If a worker loses an activity, another worker repeats it. The record decides what the
// repetition does: a call whose start is recorded is not started again unless its tool permits
// that, and a writer that another one has overtaken stops without recording anything.
//
// The keys, the environment and the sandboxes are those of the worker's host.
package work
