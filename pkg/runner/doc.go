// Package runner runs agents: it does what the state machine of package agent asks for.
//
//   - A [Gate] is what every call and every model request passes: arguments are
//     decoded and checked, the policy and the budgets are asked, results are cut.
//   - A [Runner] drives a session and those of all sub-agents: it does what Next says,
//     and every event goes to the journal, to the session and to Observe, in this order.
//   - A [Channel] is such a run for somebody who watches and directs it.
//
// A run without any file:
//
//	clock := functool.New("clock", "Tells the time.", func(context.Context, struct{}) (string, error) {
//		return time.Now().Format(time.Kitchen), nil
//	})
//	a := &agent.Agent{Slug: "hello", Provider: p, Toolsets: []agent.Toolset{agent.ToolList{clock}}}
//	out, err := (&runner.Runner{Agent: a}).Run(ctx, agent.UserText("What time is it?"))
//
// A program that drives sessions over many processes, or keeps them elsewhere, continues them
// from a [Resume], which a [Rebuilder] makes of their events, and shares budgets in a [Ledger]. It
// has sub-agents run elsewhere with a [Delegation], also in the background: see [Elsewhere].
package runner
