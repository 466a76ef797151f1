// Package treetest tests trees of agents without a model: a test file says what
// is asked, what the models of the tree answer, which tools run and what the others
// answer instead, and what must come of it.
//
//	report := treetest.Run(ctx, "agents/guide/where.agenttest.json", treetest.Options{})
//	if !report.OK() {
//		t.Error(report)
//	}
//
// [Read] reads a test file and finds every mistake in it. [Run] reads one, loads
// its tree with the scripted models, runs the prompt and compares what happened
// with what the file expects; the comparison is a pure function of the events of
// the run. [RunAll] runs many at the same time, [Find] finds them, [Record] writes
// one from the events of a real run.
//
// No test waits: the delays of scripts and the waits before a request is repeated
// pass on a clock of the test's own. Which calls run at the same time does not
// depend on the machine's speed: the calls of an answer wait for each other before
// they begin.
//
// docs/testing.md describes the format, schemas/agenttest.schema.json is its JSON
// Schema.
package treetest
