// Package treetest tests trees of agents without models: a test file has a prompt,
// scripts for the models, stubs for the tools that do not run, and the expected
// result.
//
//	report := treetest.Run(ctx, "agents/guide/where.agenttest.json", treetest.Options{})
//	if !report.OK() {
//		t.Error(report)
//	}
//
// [Read] reads a test file and finds every mistake in it. [Run] reads one, loads
// its tree with the scripted models, runs the prompt and compares the events with
// the expected result. [RunAll] runs many tests concurrently, [Find] finds them,
// [Record] makes one from the events of a real run.
//
// No test waits: the delays of scripts and the waits before a request is repeated
// advance a clock of the test. Which calls run at the same time does not depend on
// the speed of the machine: the calls of an answer wait for each other before they
// begin.
//
// docs/testing.md describes the format, schemas/agenttest.schema.json is its JSON
// Schema.
package treetest
