// Package remote makes agents that `agents serve` offers on another host tools of an
// agent here.
//
//	s := &remote.Server{URL: "https://agents.example", Token: key.Reveal}
//	d, err := s.Describe(ctx, "librarian")
//	…
//	a.Toolsets = append(a.Toolsets, agent.ToolList{&remote.Agent{Server: s, Description: d, Name: "expert_librarian"}})
//
// A call is a run on the server, held over the channel (docs/nesting.md): lease, events,
// cost, questions and cancellation work as with an agent in another process. After a lost
// connection, the client reconnects and gets the events that it missed.
package remote
