// Package remote makes agents that `agents serve` offers on another host tools of an
// agent here.
//
//	s := &remote.Server{URL: "https://agents.example", Token: key.Reveal}
//	d, err := s.Describe(ctx, "librarian")
//	…
//	a.Toolsets = append(a.Toolsets, agent.ToolList{&remote.Agent{Server: s, Description: d, Name: "expert_librarian"}})
//
// A call is a run on the server, held over the channel (docs/nesting.md): lease, events,
// cost, questions and cancellation are those of an agent in another process. A connection
// that is lost is made again, and the run, which continues on the server, is caught up with.
package remote
