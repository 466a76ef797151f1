// Package proof has the tests of a whole fleet: a Temporal server, worker processes that are
// killed, disconnected and replaced, and tools that record their calls.
//
// The tests are small by default. With FLEET=full in the environment they produce the figures
// in docs/fleet.md, which takes an hour or two. FLEET_RUNS sets the number of runs of
// TestManyRuns.
package proof
