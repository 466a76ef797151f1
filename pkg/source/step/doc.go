// Package step runs agents that are programs: an [Agent] gets the [State] of its session
// and answers with one [Action], its next step.
//
// [Provider] turns such an agent into a model: one model request is one step. Actions
// become calls of ordinary tools, by the names in [Tool], and their results become
// [Observation]s. So the agent can be the root of a tree or a sub-agent, its calls pass
// the same gate, and its sessions are journalled, resumed and replayed like all others.
// Everything in the State follows from the conversation.
//
//	type counter struct{}
//
//	func (counter) Step(_ context.Context, s step.State) (step.Action, error) {
//		if len(s.Session.History) == 0 {
//			return step.Action{Kind: step.Run, Command: "wc -l *.go"}, nil
//		}
//		return step.Action{Kind: step.Finish, Text: s.Observations[0].Text}, nil
//	}
//
//	a := &agent.Agent{Slug: "counter", Provider: step.Provider(counter{}), Toolsets: tools, NoCompaction: true}
//
// A [Program] is such an agent in another language: an executable that reads the State
// as JSON and writes the Action. schemas/step.schema.json describes both.
package step
