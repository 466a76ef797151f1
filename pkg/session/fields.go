package session

import (
	"github.com/agents-exe/agents/pkg/agent"
)

// The methods below take one value each, member by member. A member that they do
// not know is left out, as encoding/json does.

func (d *decoder) event(e *agent.Event) {
	d.object(func(key []byte) {
		switch string(key) {
		case "time":
			e.Time = d.time()
		case "kind":
			e.Kind = agent.EventKind(d.word())
		case "session":
			e.Session = d.name()
		case "agent":
			e.Agent = d.name()
		case "parent":
			e.Parent = d.name()
		case "depth":
			e.Depth = int(d.int())
		case "turn":
			e.Turn = int(d.int())
		case "model":
			e.Model = d.name()
		case "usage":
			e.Usage = new(agent.Usage)
			d.usage(e.Usage)
		case "status":
			e.Status = agent.Status(d.name())
		case "spent":
			e.Spent = new(agent.Spent)
			d.spent(e.Spent)
		case "n":
			e.N = int(d.int())
		case "millis":
			e.Millis = d.int()
		default:
			if d.brief {
				d.skip()
				return
			}
			d.content(e, key)
		}
	})
}

// content takes the members of an event that say what happened.
func (d *decoder) content(e *agent.Event, key []byte) {
	switch string(key) {
	case "message":
		e.Message = new(agent.Message)
		d.message(e.Message)
	case "finish":
		e.Finish = agent.Finish(d.word())
	case "tools":
		e.Tools = int(d.int())
	case "call_id":
		e.CallID = d.text()
	case "tool":
		e.Tool = d.name()
	case "args":
		e.Args = d.text()
	case "key":
		e.Key = d.text()
	case "argv":
		d.array(func() { e.Argv = append(e.Argv, d.text()) })
	case "digest":
		e.Digest = d.text()
	case "system":
		e.System = d.text()
	case "specs":
		d.array(func() { d.spec(add(&e.Specs)) })
	case "messages":
		d.array(func() { d.message(add(&e.Messages)) })
	case "result":
		e.Result = new(agent.ToolResult)
		d.result(e.Result)
	case "text":
		e.Text = d.text()
	case "error":
		e.Error = d.text()
	case "source":
		e.Source = d.name()
	case "context_tokens":
		e.ContextTokens = int(d.int())
	case "attempt":
		e.Attempt = int(d.int())
	default:
		d.skip()
	}
}

func add[T any](list *[]T) *T {
	var zero T
	*list = append(*list, zero)
	return &(*list)[len(*list)-1]
}

// word takes a text that is one of a few, without a copy of it.
func (d *decoder) word() string {
	b := d.bytes()
	for _, w := range words {
		if string(b) == w {
			return w
		}
	}
	return string(b)
}

var words = [...]string{
	string(agent.EventAnswer), string(agent.EventCallEnded), string(agent.EventCallStarted),
	string(agent.EventMessage), string(agent.EventSession), string(agent.EventSetup),
	string(agent.EventCompaction), string(agent.EventEnd),
	string(agent.RoleUser), string(agent.RoleAssistant), string(agent.RoleTool),
	string(agent.PartText), string(agent.PartReasoning), string(agent.PartMedia),
	string(agent.FinishStop), string(agent.FinishLength), string(agent.FinishContentFilter),
}

func (d *decoder) message(m *agent.Message) {
	d.object(func(key []byte) {
		switch string(key) {
		case "role":
			m.Role = agent.Role(d.word())
		case "parts":
			d.array(func() { d.part(add(&m.Parts)) })
		case "calls":
			d.array(func() { d.call(add(&m.Calls)) })
		case "results":
			d.array(func() { d.result(add(&m.Results)) })
		default:
			d.skip()
		}
	})
}

func (d *decoder) part(p *agent.Part) {
	d.object(func(key []byte) {
		switch string(key) {
		case "kind":
			p.Kind = agent.PartKind(d.word())
		case "text":
			p.Text = d.text()
		case "mime":
			p.MIME = d.text()
		case "data":
			p.Data = d.base64()
		case "name":
			p.Name = d.text()
		case "extra":
			p.Extra = d.json()
		case "blob":
			p.Blob = d.text()
		default:
			d.skip()
		}
	})
}

func (d *decoder) call(c *agent.ToolCall) {
	d.object(func(key []byte) {
		switch string(key) {
		case "id":
			c.ID = d.text()
		case "name":
			c.Name = d.name()
		case "args":
			c.Args = d.text()
		case "extra":
			c.Extra = d.json()
		default:
			d.skip()
		}
	})
}

func (d *decoder) result(r *agent.ToolResult) {
	d.object(func(key []byte) {
		switch string(key) {
		case "call_id":
			r.CallID = d.text()
		case "name":
			r.Name = d.name()
		case "parts":
			d.array(func() { d.part(add(&r.Parts)) })
		case "failed":
			r.Failed = d.bool()
		default:
			d.skip()
		}
	})
}

func (d *decoder) spec(s *agent.ToolSpec) {
	d.object(func(key []byte) {
		switch string(key) {
		case "name":
			s.Name = d.text()
		case "description":
			s.Description = d.text()
		case "schema":
			s.Schema = d.json()
		case "source":
			s.Source = d.text()
		case "agent":
			s.Agent = d.text()
		case "effects":
			s.Effects = agent.Effects(d.name())
		case "locks":
			d.array(func() { s.Locks = append(s.Locks, d.text()) })
		default:
			d.skip()
		}
	})
}

func (d *decoder) usage(u *agent.Usage) {
	d.object(func(key []byte) {
		switch string(key) {
		case "requests":
			u.Requests = int(d.int())
		case "input_tokens":
			u.InputTokens = int(d.int())
		case "cached_tokens":
			u.CachedTokens = int(d.int())
		case "output_tokens":
			u.OutputTokens = int(d.int())
		case "reasoning_tokens":
			u.ReasoningTokens = int(d.int())
		case "cost":
			u.Cost = d.float()
		case "priced":
			u.Priced = int(d.int())
		default:
			d.skip()
		}
	})
}

func (d *decoder) spent(s *agent.Spent) {
	d.object(func(key []byte) {
		switch string(key) {
		case "usage":
			d.usage(&s.Usage)
		case "agents":
			s.Agents = map[string]agent.Usage{}
			d.object(func(slug []byte) {
				var u agent.Usage
				name := string(slug)
				d.usage(&u)
				s.Agents[name] = u
			})
		case "tools":
			s.Tools = map[string]agent.ToolUsage{}
			d.object(func(tool []byte) {
				var u agent.ToolUsage
				name := string(tool)
				d.toolUsage(&u)
				s.Tools[name] = u
			})
		default:
			d.skip()
		}
	})
}

func (d *decoder) toolUsage(u *agent.ToolUsage) {
	d.object(func(key []byte) {
		switch string(key) {
		case "calls":
			u.Calls = int(d.int())
		case "failed":
			u.Failed = int(d.int())
		case "output_bytes":
			u.OutputBytes = d.int()
		case "millis":
			u.Millis = d.int()
		default:
			d.skip()
		}
	})
}
