// Package host starts runs. A [Host] assembles what every run needs, whichever command or
// protocol asked for it: the agent, its session, the secrets to redact, the budget, the policy,
// the person who answers questions, and the observers of its events. Commands and network
// protocols add nothing to a run: they translate requests into [Host.Start], and the events of
// the [runner.Channel] that it returns into responses.
//
//	h := host.New(tree)
//	c, err := h.Start(ctx, tree.Root.Slug, agent.Start{Args: json.RawMessage(`{"prompt": "hi"}`)})
//	out, err := c.Wait()
//	err = errors.Join(err, h.Wait()) // the sessions are closed
//
// [Host.Call] makes one call of one tool through the same gate. Programs that drive a session
// themselves, a step at a time or with recorded answers, get their Runner from [Host.Runner]. No
// other code outside of tests creates one.
package host
