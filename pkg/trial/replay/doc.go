// Package replay runs a recorded session again: the model's answers and the results
// of tools come from the record.
//
// A record is a session and nothing else: its journal holds every request and answer
// of the whole tree, as agent.Request and agent.Response mean them. They are not kept
// as bytes of HTTP, so no key and no header can be among them, and a record does not
// depend on the API of a model. [New] makes a [Record] of the events of a session; a
// [Player] replays it.
//
//	rec, err := replay.New(events)
//	p := &replay.Player{Record: rec}
//	out, err := p.Run(ctx, func() *runner.Runner { return h.Runner(nil) })
//
// If the Runner has no Agent, the Player repeats the events of the record in their order and
// needs neither files nor programs. It applies each event to its session, so a record of what
// cannot have happened is an error. With an Agent, of a tree that was loaded and given to Wrap,
// the Runner runs that tree, and every request is compared with the recorded one: so a changed
// prompt or tool shows its effect. With LiveTools, LiveModel or LiveFrom a part of it is real.
//
// A request or call that is not in the record is a [Miss]: the run ends, and the error
// shows the difference to what was recorded.
//
// Sessions of a loaded tree have ids of their own, so they are known by their path: ""
// is the root session, and the session that answers call N of turn T of a session is
// at that session's path with "/T.N" behind it.
package replay
