// Package agent holds the vocabulary of the program and its loop. It imports
// nothing else of this module; everything else imports it.
//
// A guided tour, bottom up:
//
//   - A [Message] is made of [Part]s. A model's message may hold [ToolCall]s;
//     each is answered by one [ToolResult].
//   - An [Event] is something that happened in a conversation. A [Session] is
//     what its events add up to: it changes only through Session.Apply, and the
//     pure function Session.Next says what it needs: an answer of the model,
//     results of calls, or a prompt.
//   - A [Provider] is a model, a [Tool] something that it can call, a [Toolset]
//     a source of tools. An [Agent] is a model with a system prompt and
//     toolsets, without any running state.
//   - A [Runner] drives a session: it does what Next says, and whatever comes of
//     it is an event that goes to the [Journal], to the session and to whoever
//     watches, in this order.
//   - A [Subagent] is an agent as a tool. Its calls are sessions of their own,
//     run by the same Runner under the same [Policy] and limits.
//
// Beside this package only pkg/process imports nothing of ours: it runs child
// processes, and both toolsets that start some (exectool, mcpclient) need it.
// What a run consumed is counted in [Spent]; a budget that limits it would stand
// beside it.
//
// A run without any file:
//
//	a := &agent.Agent{Slug: "hello", Provider: p, Toolsets: []agent.Toolset{agent.ToolList{clock}}}
//	out, err := (&agent.Runner{Agent: a}).Run(ctx, agent.UserText("What time is it?"))
//
// One step at a time, for a program with a loop of its own:
//
//	r := &agent.Runner{Agent: a}
//	err := r.Prompt(ctx, agent.UserText("What time is it?"))
//	for err == nil {
//		step, stepErr := r.Step(ctx)
//		if step.Kind == agent.StepPrompt {
//			break
//		}
//		err = stepErr
//	}
package agent
