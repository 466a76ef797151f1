// Package host starts runs. A [Host] puts together what every run has, whoever asked for
// it: the agent, its session, the secrets to take out, the budget, the policy, the person
// who answers questions, and who sees the events. Commands and network protocols add
// nothing to a run: they translate what they get into [Host.Start], and the events of the
// [agent.Channel] that it returns into what they send.
//
//	h := host.New(tree)
//	c, err := h.Start(ctx, tree.Root.Slug, agent.Start{Args: json.RawMessage(`{"prompt": "hi"}`)})
//	out, err := c.Wait()
//	err = errors.Join(err, h.Wait()) // the sessions are closed
//
// [Host.Call] makes one call of one tool through the same gate. Programs that drive a
// session themselves, a step at a time or with recorded answers, get their Runner from
// [Host.Runner]. It is the only place outside of tests that makes one.
package host
