package transcript

import (
	"iter"

	"github.com/agents-exe/agents/pkg/agent"
)

// OfState returns events of a session that lead to this state, for functions that format a
// session. Times, usage, schemas of tools and messages that a compaction removed are missing,
// because a state does not contain them.
func OfState(s agent.State) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		turn := 0
		emit := func(e agent.Event) bool {
			e.Session, e.Agent, e.Model, e.Turn = s.ID, s.Agent, s.Model, turn
			return yield(e, nil)
		}
		ended := func(i int, r *agent.ToolResult) bool {
			return emit(agent.Event{Kind: agent.EventCallEnded, CallID: r.CallID, Tool: r.Name, N: i + 1, Result: r})
		}
		setup := agent.Event{Kind: agent.EventSetup, System: s.Setup.System, Digest: s.Setup.Digest}
		for _, name := range s.Setup.Tools {
			setup.Specs = append(setup.Specs, agent.ToolSpec{Name: name})
		}
		if !emit(agent.Event{Kind: agent.EventSession}) || !emit(setup) {
			return
		}
		for i := range s.Messages {
			m := &s.Messages[i]
			ok := true
			switch m.Role {
			case agent.RoleUser:
				ok = emit(agent.Event{Kind: agent.EventMessage, Message: m})
			case agent.RoleAssistant:
				turn++
				ok = emit(agent.Event{Kind: agent.EventAnswer, Message: m})
			case agent.RoleTool:
				for n := range m.Results {
					ok = ok && ended(n, &m.Results[n])
				}
			}
			if !ok {
				return
			}
		}
		for n, c := range s.Calls {
			if c.Result != nil && !ended(n, c.Result) {
				return
			}
		}
	}
}
