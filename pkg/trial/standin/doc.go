// Package standin stands in for the tools of agents: calls are answered from
// something other than the tool, a recorded session or the stubs of a test.
//
// A [Tool] answers the calls of another one. [Result] is what a tool returned,
// from the result that the model got. [Diff] shows how what
// happened differs from what was expected.
package standin
