// Package agent holds the vocabulary of the program, its state machine and the
// Runner that drives it. It imports nothing else of this module but leaves;
// everything else imports it.
//
// A guided tour, bottom up:
//
//   - A [Message] is made of [Part]s. A model's message may hold [ToolCall]s;
//     each is answered by one [ToolResult].
//   - An [Event] is something that happened in a conversation. A [Session] is
//     the sum of its events and a state machine: Session.Next says what it
//     needs, methods such as Session.Answered turn what came of that into
//     events, and Session.Apply is the only way in which it changes.
//   - A [Provider] is a model, a [Tool] something that it can call, a [Toolset]
//     a source of tools. functool.New makes one of a Go function. An [Agent] is a
//     model with a system prompt and toolsets, without any running state.
//   - A [Gate] is what every call and every model request passes: arguments are
//     decoded and checked, [Policy] and the [Budget] are asked, results are cut.
//   - A [Runner] drives a session: it does what Next says, and every event goes
//     to the [Journal], to the session and to Observe, in this order.
//   - A [Subagent] is an agent as a tool. Its calls are sessions of their own,
//     run by the same Runner through the same Gate.
//
// A run without any file:
//
//	clock := functool.New("clock", "Tells the time.", func(context.Context, struct{}) (string, error) {
//		return time.Now().Format(time.Kitchen), nil
//	})
//	a := &agent.Agent{Slug: "hello", Provider: p, Toolsets: []agent.Toolset{agent.ToolList{clock}}}
//	out, err := (&agent.Runner{Agent: a}).Run(ctx, agent.UserText("What time is it?"))
//
// Decorators of tools and toolsets ([Wrap], [WrapToolset], or a type with a method
// Unwrap() any) keep what else the inner one can do: see [As].
package agent
