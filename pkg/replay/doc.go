// Package replay runs a recorded session again: the same loop, with the model's
// answers and the results of tools served from the record.
//
// A record is a session and nothing else: its journal already holds every request
// and answer of the whole tree, as agent.Request and agent.Response mean them. They
// are not kept as bytes of HTTP, so no key and no header can be among them, and a
// record serves whichever API a model speaks. A [Record] is what a session's events
// say of the requests and calls; a [Player] serves them.
//
//	rec, err := replay.New(events)
//	p := &replay.Player{Record: rec}
//	out, err := p.Run(ctx, &agent.Runner{Agent: nil, Observe: show})
//
// Without an Agent the Player makes agents of the record alone: their tools are what
// the model was told of them, so neither a file nor a program is needed, and nothing
// happens but the events. With one, a tree that was loaded and given to Wrap, every
// request of the tree is compared with the recorded one, which shows what a changed
// prompt or tool changes. With LiveTools, LiveModel or LiveFrom one side of it is
// real.
//
// What is asked and the record does not have is a [Miss]: the run ends, and the
// error shows what differs from what was recorded.
//
// Agents of the record alone do everything in the recorded order, in sessions with the
// recorded ids. Where something is loaded or real, sessions have other ids, and the
// order of what happens at the same time is open; they are known by their path: "" is
// the root session, and the session that answers call N of turn T of a session is at
// that session's path with "/T.N" behind it.
package replay
