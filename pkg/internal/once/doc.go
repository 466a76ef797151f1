// Package once counts what happens to the effects of tools when `agents run` and other coding
// agents are killed with SIGKILL and resumed. docs/at-most-once.md has the method and the figures.
//
// The tasks have the format of tau2-bench: those of testdata, and those of a checkout of
// tau2-bench that an environment variable names. `make bench-once` measures everything; the tests
// are skipped unless AGENTS_TEST_AGENTS names the program.
package once
