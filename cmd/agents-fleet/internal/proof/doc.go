// Package proof holds the tests of a whole fleet: a Temporal server, workers as processes of
// their own, which are killed, cut off and replaced, and tools that note their calls.
//
// The tests are small by default. With FLEET=full in the environment they have the size of
// the figures in docs/fleet.md, which takes an hour or two. FLEET_RUNS is the number of runs
// of TestManyRuns.
package proof
