package channel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/runner"
)

// A lent model is a Provider that counts what it served.
type lentModel struct {
	pieces int
	asked  []*agent.Request
	fail   error
	wait   bool // until the request is cancelled
	served agent.Usage
}

func (m *lentModel) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	m.asked = append(m.asked, req)
	u := agent.Usage{Requests: 1, InputTokens: 7, OutputTokens: 3, Cost: 123_457, Priced: 1}
	m.served = m.served.Add(u)
	if m.wait {
		<-ctx.Done()
		return nil, &agent.ModelError{Message: "cancelled", Err: ctx.Err(), Usage: u}
	}
	if m.fail != nil {
		return nil, m.fail
	}
	text := ""
	for i := range m.pieces {
		piece := fmt.Sprintf("<%d>", i)
		text += piece
		delta(agent.Delta{Kind: agent.DeltaText, Text: piece})
	}
	return &agent.Response{Message: says(text), Usage: u, Model: "served"}, nil
}

// A borrower is a tool that runs an agent behind a channel, as another process does.
type borrower struct {
	child
	runner *runner.Runner
	leased func(agent.Lease) // may be nil
}

func (b *borrower) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	b.process(ctx, inv, func(p *peer) {
		in, feed := io.Pipe()
		go func() {
			for p.in.Scan() {
				_, _ = io.WriteString(feed, p.in.Text()+"\n")
			}
			feed.Close()
		}()
		s := &Server{In: in, Out: p.out, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) {
			if b.leased != nil {
				b.leased(start.Lease)
			}
			return b.runner.Start(ctx, start), nil
		}}
		_, _ = s.Serve(p.alive)
		in.Close()
	})
	inv.Caller.Called(ctx, inv, b.err)
	return b.result, b.err
}

// borrowing returns an agent with a model that its caller lends.
func borrowing(name string, sets ...agent.Toolset) *agent.Agent {
	return &agent.Agent{Slug: name, Provider: agent.Borrowed{}, Borrows: true, Toolsets: sets}
}

// chain returns a Runner of an agent with a model, and n agents below it, each in another process,
// of which the last one asks the model.
func chain(n int, m agent.Provider, change func(level int, a *agent.Agent)) *runner.Runner {
	var below []agent.Toolset
	for level := n; ; level-- {
		a := borrowing(fmt.Sprintf("level%d", level), below...)
		if level < n {
			a.Provider, a.Borrows = &answers{calls("child", `{"prompt":"go"}`), says("done")}, false
		}
		if level == 0 {
			a.Lend = []agent.Loan{{Name: "smart", Model: "served", ContextTokens: 5000, Provider: m, Implied: true}}
		}
		if change != nil {
			change(level, a)
		}
		r := &runner.Runner{Agent: a}
		if level == 0 {
			return r
		}
		below = []agent.Toolset{agent.ToolList{&borrower{runner: r}}}
	}
}

// A described model is one with known abilities and a known price.
type described struct{ *lentModel }

func (described) Abilities() []agent.Ability {
	return []agent.Ability{agent.AbilityTools, agent.AbilityImages}
}

func (described) PublicPrice() *agent.LoanPrice {
	return &agent.LoanPrice{Input: 3 * agent.Dollar, Output: 15 * agent.Dollar}
}

// TestALeaseSaysWhatALentModelCanDo: at any depth, the lease has the model's abilities and price, and
// leaves out what is not known.
func TestALeaseSaysWhatALentModelCanDo(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		for _, known := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				m := &lentModel{pieces: 1}
				var p agent.Provider = &provider.Retry{Provider: described{m}}
				want := `[{"name":"smart","model":"served","contextTokens":5000,"can":["tools","images"],"price":{"input":3,"output":15}}]`
				if !known {
					p, want = m, `[{"name":"smart","model":"served","contextTokens":5000}]`
				}
				var leases []string
				r := chain(depth, p, func(_ int, a *agent.Agent) {
					for _, set := range a.Toolsets {
						set.(agent.ToolList)[0].(*borrower).leased = func(l agent.Lease) {
							text, _ := json.Marshal(l.Models)
							leases = append(leases, string(text))
						}
					}
				})
				if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
					t.Fatal(err)
				}
				for _, got := range leases {
					if got != want {
						t.Errorf("depth %d: lent are %s, want %s", depth, got, want)
					}
				}
				if len(leases) != depth {
					t.Errorf("depth %d: %d leases", depth, len(leases))
				}
			})
		}
	}
}

// An agent any number of processes below the one that has the model is answered by it, with
// the pieces in their order, and each level counts what the model has served.
func TestALentModelAnswersAtAnyDepth(t *testing.T) {
	for depth := 1; depth <= 4; depth++ {
		synctest.Test(t, func(t *testing.T) {
			m := &lentModel{pieces: 300}
			dollars := agent.Dollar
			r := chain(depth, m, func(level int, a *agent.Agent) { a.Budget.USD = &dollars })
			var streamed strings.Builder
			var answered []agent.Event
			leaf := fmt.Sprintf("level%d", depth)
			r.Observe = func(e agent.Event) {
				switch {
				case e.Kind == agent.EventText:
					streamed.WriteString(e.Text)
				case e.Kind == agent.EventAnswer && e.Agent == leaf:
					answered = append(answered, e)
				case e.Kind == agent.EventSession && e.Agent == leaf && e.Model != "served", e.Kind == agent.EventMessage && e.Agent == leaf && e.Limits.ContextTokens != 5000:
					t.Errorf("it does not know its model: %s event of %q, %+v", e.Kind, e.Model, e.Limits)
				case e.Kind == agent.EventQuestion, e.Kind == agent.EventWarning && e.Agent == leaf:
					t.Errorf("a %s is shown: %s%s", e.Kind, e.What, e.Text)
				}
			}
			out, err := r.Run(t.Context(), agent.UserText("go"))
			if err != nil || len(answered) != 1 || streamed.String() != answered[0].Message.Text() || len(m.asked) != 1 {
				t.Fatalf("%v: %d answers, %d requests; streamed %d bytes", err, len(answered), len(m.asked), streamed.Len())
			}
			if got := out.Total.Agents[leaf]; got != m.served || *answered[0].Usage != m.served {
				t.Errorf("counted %+v, served %+v", got, m.served)
			}
			if req := m.asked[0]; req.Agent != leaf || req.Messages[0].Text() != "go" || req.Session != answered[0].Session {
				t.Errorf("request of %s: %+v", req.Agent, req)
			}
		})
	}
}

// A level that lends nothing, or other models, cannot be passed; one that names a loan passes it
// on; one with a model of its own lends that.
func TestWhatIsLentOnlyShrinks(t *testing.T) {
	own := &lentModel{pieces: 1}
	for name, tt := range map[string]struct {
		lend []agent.Loan
		wish string
		ok   bool
		from string
	}{
		"passed on":                     {nil, "", true, "root"},
		"passed on, by its name":        {nil, "smart", true, "root"},
		"passed on, by its model":       {nil, "served", true, "root"},
		"passed on, in place of a wish": {nil, "other", true, "root"},
		"named":                         {[]agent.Loan{{Name: "smart"}}, "", true, "root"},
		"none":                          {[]agent.Loan{}, "", false, ""},
		"none of that name":             {[]agent.Loan{}, "smart", false, ""},
		"another":                       {[]agent.Loan{{Name: "other"}}, "", false, ""},
		"its own":                       {[]agent.Loan{{Name: "own", Provider: own}}, "smart", true, "own"},
		"both":                          {[]agent.Loan{{Name: "own", Provider: own}, {Name: "smart"}}, "smart", true, "root"},
	} {
		for depth := 1; depth <= 2; depth++ { // the level between is in the process of the root, or not
			m := &lentModel{pieces: 1}
			own.asked = nil
			r := chain(3, m, func(level int, a *agent.Agent) {
				switch level {
				case depth:
					a.Lend = tt.lend
				case 3:
					a.Provider, a.Model = agent.Borrowed{Wish: tt.wish}, tt.wish
				}
			})
			warned := false
			r.Observe = func(e agent.Event) { warned = warned || e.Kind == agent.EventWarning }
			out, _ := r.Run(t.Context(), agent.UserText("go"))
			if want := tt.wish == "other" || name == "its own"; warned != want {
				t.Errorf("%s: warned %t", name, warned)
			}
			if got := out.Total.Agents["level3"].Requests == 1; got != tt.ok || (len(m.asked) == 1) != (tt.from == "root") || (len(own.asked) == 1) != (tt.from == "own") {
				t.Errorf("%s: answered %t by %d, %d requests", name, got, len(m.asked), len(own.asked))
			}
		}
	}
}

// A failure of the lent model is that of the borrower's request, with what it consumed.
func TestALentModelFails(t *testing.T) {
	used := agent.Usage{Requests: 1, InputTokens: 5, Cost: 99, Priced: 1}
	for want, err := range map[string]error{
		"ask model served: HTTP 529 (overloaded): try later": &agent.ModelError{Status: 529, Code: "overloaded", Message: "try later", Temporary: true, Usage: used},
		"ask model served: no route":                         errors.New("no route"),
		"ask model served: connection refused":               &agent.ModelError{Message: "connection refused"},
		"ask model served: HTTP 400: too long":               &agent.ModelError{Status: 400, Message: "too long", TooLong: true},
	} {
		m := &lentModel{fail: err}
		r := chain(2, m, nil)
		var failed []agent.Event
		r.Observe = func(e agent.Event) {
			if e.Kind == agent.EventFailure && e.Agent == "level2" {
				failed = append(failed, e)
			}
		}
		out, runErr := r.Run(t.Context(), agent.UserText("go"))
		if runErr != nil || len(failed) != 1 || failed[0].Error != want {
			t.Errorf("%s: %v, %+v", want, runErr, failed)
			continue
		}
		if e, ok := err.(*agent.ModelError); ok && (out.Total.Agents["level2"] != e.Usage || failed[0].TooLong != e.TooLong) {
			t.Errorf("%s: counted %+v", want, out.Total.Agents["level2"])
		}
	}
}

// A lender whose budget is spent between two attempts ends the run of the borrower as any budget
// does, and a tool that its server would refuse is not in the request.
func TestALentModelIsAskedAsTheLendersOwn(t *testing.T) {
	used := agent.Usage{Requests: 1, InputTokens: 5, Cost: 2 * agent.Dollar, Priced: 1}
	m := &picky{again: &used}
	dollars := agent.Dollar
	good, bad := &child{}, &named{}
	r := chain(2, m, func(level int, a *agent.Agent) {
		switch level {
		case 0:
			a.Budget.USD = &dollars
		case 2:
			a.Toolsets = []agent.Toolset{agent.ToolList{good, bad}}
		}
	})
	var ended agent.Status
	r.Observe = func(e agent.Event) {
		if e.Kind == agent.EventEnd && e.Agent == "level2" {
			ended = e.Status
		}
	}
	_, _ = r.Run(t.Context(), agent.UserText("go"))
	if ended != agent.StatusBudget || len(m.tools) != 1 || m.tools[0].Name != "child" {
		t.Errorf("%s, asked with the tools %v", ended, m.tools)
	}
}

// picky is a model that refuses the tool bad, and asks whether it may repeat a request.
type picky struct {
	again *agent.Usage
	tools []agent.ToolSpec
}

func (p *picky) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	p.tools = req.Tools
	return nil, &agent.ModelError{Message: "twice", Err: req.Again(*p.again), Usage: *p.again}
}

func (p *picky) FitTool(s agent.ToolSpec) (agent.ToolSpec, []string, error) {
	if s.Name == "bad" {
		return s, nil, errors.New("its server refuses it")
	}
	return s, nil, nil
}

// named is a tool with the name bad.
type named struct{ child }

func (*named) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "bad", Schema: json.RawMessage(`{"type":"object"}`)}
}

// A question that is passed on says of its session where it is in the tree of the one who answers,
// and a reply that is no answer fails the request.
func TestAQuestionIsPassedOn(t *testing.T) {
	for reply, want := range map[string]string{
		`{"response":{"message":{"parts":[{"kind":"text","text":"hi"}]}}}`:               "",
		`{"response":{"message":{"parts":[]},"usage":{"requests":1,"input_tokens":-5}}}`: "the reply is not an answer",
		`{}`:   "the reply is not an answer",
		`[]`:   "ask the caller's model: ",
		`null`: "nobody can be asked",
	} {
		r := chain(2, nil, func(level int, a *agent.Agent) {
			if level == 0 {
				a.Lend = nil
			}
		})
		c := r.Start(t.Context(), agent.Start{Args: json.RawMessage(`{"prompt":"go"}`), Lease: agent.Lease{Models: []agent.Loan{{Name: "mine"}}}})
		calls, failed := map[string]string{}, ""
		for e := range c.Events() {
			switch {
			case e.Kind == agent.EventCallStarted:
				calls[e.Agent] = e.Key
			case e.Kind == agent.EventFailure && e.Agent == "level2":
				failed = e.Error
			case e.Kind == agent.EventQuestion:
				if e.Depth != 2 || e.Agent != "level2" || e.Parent != calls["level1"] || strings.Join(e.Path, " ") != "level0 level1 level2" || e.Model != "mine" {
					t.Errorf("the question is of %s at depth %d below %s, %q, for %s", e.Agent, e.Depth, e.Parent, e.Path, e.Model)
				}
				c.Reply(e.Question, json.RawMessage(reply))
			}
		}
		if (failed == "") != (want == "") || !strings.Contains(failed, want) {
			t.Errorf("%s: %q, want %q", reply, failed, want)
		}
	}
}

// After a lent model failed, the borrower asks the next of its own list, which may be lent too, until
// the budget is spent. What each has served is counted.
func TestABorrowerHasFurtherModels(t *testing.T) {
	used := agent.Usage{Requests: 1, InputTokens: 5, Cost: 40, Priced: 1}
	for name, tt := range map[string]struct {
		next   agent.Provider
		budget agent.Money
		status agent.Status
		cost   agent.Money
	}{
		"its own":                         {&lentModel{pieces: 1}, agent.Dollar, agent.StatusOK, 40 + 123_457},
		"another lent one":                {agent.Borrowed{Wish: "second"}, agent.Dollar, agent.StatusOK, 40 + 123_457},
		"another one beyond the budget":   {agent.Borrowed{Wish: "second"}, 40, agent.StatusBudget, 40},
		"the same one, beyond the budget": {agent.Borrowed{Wish: "smart"}, 40, agent.StatusBudget, 40},
	} {
		first := &lentModel{fail: &agent.ModelError{Status: 529, Message: "busy", Temporary: true, Usage: used}}
		r := chain(2, first, func(level int, a *agent.Agent) {
			switch level {
			case 0:
				a.Budget.USD = &tt.budget
				a.Lend = append(a.Lend, agent.Loan{Name: "second", Provider: &lentModel{pieces: 1}, Implied: true})
			case 2:
				a.Provider = &provider.Fallback{Models: []provider.Model{{Name: "a", Provider: agent.Borrowed{Wish: "smart"}}, {Name: "b", Provider: tt.next}}}
			}
		})
		var ended agent.Status
		r.Observe = func(e agent.Event) {
			if e.Kind == agent.EventEnd && e.Agent == "level2" {
				ended = e.Status
			}
		}
		out, _ := r.Run(t.Context(), agent.UserText("go"))
		if got := out.Total.Agents["level2"].Cost; ended != tt.status || got != tt.cost {
			t.Errorf("%s: %s, counted %d, want %s, %d", name, ended, got, tt.status, tt.cost)
		}
	}
}

// Stopping the borrower, or the whole run, ends the request to the lent model, and what it has
// consumed is counted.
func TestACancelEndsALentRequest(t *testing.T) {
	for _, below := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := &lentModel{wait: true}
			r := chain(3, m, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.Observe = func(e agent.Event) {
				if e.Kind == agent.EventRequest && e.Agent == "level3" {
					session := e.Session
					go func() {
						time.Sleep(time.Second)
						if below {
							r.Direct(agent.Directive{Session: session, Stop: true, Reason: "enough"})
						} else {
							cancel()
						}
					}()
				}
			}
			out, err := r.Run(ctx, agent.UserText("go"))
			if below != (err == nil) || len(m.asked) != 1 || out.Total.Agents["level3"] != m.served {
				t.Errorf("stopped below %t: %v, counted %+v, served %+v", below, err, out.Total.Agents["level3"], m.served)
			}
		})
	}
}

// Secrets of the lender that reach an agent below do not reach the model.
func TestALentRequestHasNoSecrets(t *testing.T) {
	m := &lentModel{pieces: 1}
	r := chain(1, m, nil)
	r.Secrets = redact.New([]string{"hunter2hunter2"})
	b := r.Agent.Toolsets[0].(agent.ToolList)[0].(*borrower)
	b.runner.Agent.System = "the password is hunter2hunter2"
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil || strings.Contains(m.asked[0].System, "hunter2") {
		t.Errorf("%v: %q", err, m.asked[0].System)
	}
}

// borrow asks a lent model and returns the reply.
func (p *peer) borrow(e agent.Event) (reply string) {
	e.Kind, e.What, e.Question = agent.EventQuestion, "model", fmt.Sprintf("m%d", p.seq)
	p.send(e)
	for p.in.Scan() {
		var m message
		if json.Unmarshal(p.in.Bytes(), &m) == nil && m.Kind == kindReply && m.Question == e.Question {
			return string(m.Answer)
		}
	}
	return "no reply"
}

// An agent in another process cannot borrow what is not lent, spend what is not counted, or ask in
// the place of another session.
func TestABorrowerCannotCheat(t *testing.T) {
	request := &agent.Request{Messages: []agent.Message{agent.UserText("hi")}}
	good := of(agent.Event{Model: "smart", Request: request})
	dollars := agent.Dollar
	budget := agent.Budget{USD: &dollars}
	for _, tt := range []struct {
		name   string
		budget agent.Budget
		play   func(p *peer, ask func(agent.Event))
		want   []string // in the replies
		served int      // requests
		cost   int      // requests whose cost is counted for the agent
	}{
		{"says that it was free", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(answer(says("hi"), agent.Usage{}), end(agent.StatusOK, "hi"))
		}, []string{`"response"`}, 1, 1},
		{"does not record the answer", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(end(agent.StatusOK, "hi"))
		}, []string{`"response"`}, 1, 1},
		{"ends early", agent.Budget{}, func(_ *peer, ask func(agent.Event)) { ask(good) }, []string{`"response"`}, 1, 1},
		{"asks twice", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			ask(good)
			p.send(answer(says("hi"), agent.Usage{}), end(agent.StatusOK, "hi"))
		}, []string{`"response"`, "before it has recorded"}, 1, 1},
		{"does not read the answer", agent.Budget{}, func(p *peer, _ func(agent.Event)) {
			e := good
			e.Kind, e.What, e.Question = agent.EventQuestion, "model", "q"
			p.send(e)
			<-p.alive.Done()
		}, nil, 1, 1},
		{"says that it has spent more itself", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(answer(says("hi"), agent.Usage{Requests: 2, Cost: 3 * 123_457, Priced: 2}), end(agent.StatusOK, "hi"))
		}, []string{`"response"`}, 1, 3}, // what it says beyond counts
		{"estimates what it has spent itself", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(answer(says("hi"), agent.Usage{Requests: 2, Cost: 3 * 123_457, Priced: 2, Estimated: 1}), end(agent.StatusOK, "hi"))
		}, []string{`"response"`}, 1, 3},
		{"estimates what is known", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(of(agent.Event{Kind: agent.EventFailure, Status: agent.StatusFailed, Error: "x", Usage: &agent.Usage{Requests: 1, Cost: 3 * 123_457, Estimated: 1}}), end(agent.StatusFailed, "x"))
		}, []string{`"response"`}, 1, 1},
		{"asks without a reservation", budget, func(p *peer, ask func(agent.Event)) {
			ask(good)
			p.send(end(agent.StatusFailed, "hi"))
		}, []string{"without a reservation"}, 0, 0},
		{"asks with a reservation, and again without one", budget, func(p *peer, ask func(agent.Event)) {
			p.reserve("", "")
			ask(good)
			p.send(answer(says("hi"), agent.Usage{}))
			ask(good)
			p.send(end(agent.StatusOK, "hi"))
		}, []string{`"response"`, "without a reservation"}, 1, 1},
		{"a model that is not lent", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			for _, name := range []string{"", "other", "SMART", "smart ", "\x00smart", strings.Repeat("x", 1000)} {
				ask(of(agent.Event{Model: name, Request: request}))
			}
			p.send(end(agent.StatusFailed, "hi"))
		}, []string{"is not lent", "is not lent", "is not lent", "is not lent", "is not lent", "is not lent"}, 0, 0},
		{"another session", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			for _, id := range []string{"OUTER", "X", "../S"} {
				ask(agent.Event{Session: id, Model: "smart", Request: request})
			}
			p.send(end(agent.StatusFailed, "hi"))
		}, []string{"does not run", "does not run", "does not run"}, 0, 0},
		{"no request", agent.Budget{}, func(p *peer, ask func(agent.Event)) {
			ask(of(agent.Event{Model: "smart"}))
			p.send(end(agent.StatusFailed, "hi"))
		}, []string{"has no request"}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &lentModel{pieces: 2000} // more than the queue of messages holds
				var replies []string
				var total agent.TotalUsage
				_, events := callChild(t, func(p *peer) {
					p.in.Scan()
					p.send(session(), prompt())
					tt.play(p, func(e agent.Event) { replies = append(replies, p.borrow(e)) })
				}, func(r *runner.Runner) {
					r.Lease.Budget = tt.budget
					r.Agent.Lend = []agent.Loan{{Name: "smart", Provider: m}}
				})
				total = *events[len(events)-1].Total
				if len(m.asked) != tt.served || len(replies) != len(tt.want) {
					t.Fatalf("served %d, replies %q", len(m.asked), replies)
				}
				for i, want := range tt.want {
					if !strings.Contains(replies[i], want) {
						t.Errorf("reply %d = %.300s, want %s", i, replies[i], want)
					}
				}
				if got, want := total.Agents["inner"].Cost, agent.Money(tt.cost*123_457); got != want {
					t.Errorf("counted %s, served %s", got, want)
				}
			})
		})
	}
}

// Agents on servers get no model unless the file names it for them.
func TestALoanForAServerIsNamed(t *testing.T) {
	for _, implied := range []bool{true, false} {
		r := chain(1, &lentModel{pieces: 1}, func(level int, a *agent.Agent) {
			if level == 0 {
				a.Lend[0].Implied = implied
			}
		})
		list := r.Agent.Toolsets[0].(agent.ToolList)
		list[0] = far{list[0]}
		out, _ := r.Run(t.Context(), agent.UserText("go"))
		if got := out.Total.Agents["level1"].Requests == 1; got == implied {
			t.Errorf("implied %t: answered %t", implied, got)
		}
	}
}

type far struct{ agent.Tool }

func (f far) Spec() agent.ToolSpec {
	spec := f.Tool.Spec()
	spec.Far = true
	return spec
}

// A holder that is no agent lends a model of its own.
func TestAHolderLendsAModel(t *testing.T) {
	in, feed := io.Pipe()
	read, out := io.Pipe()
	r := &runner.Runner{Agent: borrowing("lone")}
	go func() {
		s := &Server{In: in, Out: out, Start: func(ctx context.Context, start agent.Start) (*runner.Channel, error) { return r.Start(ctx, start), nil }}
		_, _ = s.Serve(t.Context())
		out.Close()
	}()
	send := func(text string) { _, _ = io.WriteString(feed, text+"\n") }
	go send(`{"kind":"start","channel":1,"args":{"prompt":"hi"},"lease":{"models":[{"name":"mine"}]}}`)
	var text, last string
	for lines := bufio.NewScanner(read); lines.Scan(); {
		var e agent.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		last = lines.Text()
		switch e.Kind {
		case agent.EventQuestion:
			if e.What != "model" || e.Model != "mine" || e.Request.Messages[0].Text() != "hi" {
				t.Fatalf("the question is %s", last)
			}
			go func() {
				send(`{"kind":"delta","question":"` + e.Question + `","delta":{"kind":"text","text":"hel"}}`)
				send(`{"kind":"reply","question":"` + e.Question + `","answer":{"response":{"message":{"parts":[{"kind":"text","text":"hello"}]}}}}`)
			}()
		case agent.EventText:
			text += e.Text
		}
	}
	if text != "hel" || !strings.Contains(last, `"text":"hello","status":"ok"`) || !strings.Contains(last, `"estimated":1`) {
		t.Errorf("streamed %q, then %s", text, last)
	}
	feed.Close()
}

// The time from the request of a borrower until it shows the first piece, and for each further one.
func BenchmarkLentModel(b *testing.B) {
	for depth := 1; depth <= 3; depth++ {
		for _, pieces := range []int{1, 1000} {
			b.Run(fmt.Sprintf("depth %d, %d pieces", depth, pieces), func(b *testing.B) {
				var took time.Duration
				for b.Loop() {
					r := chain(depth, &lentModel{pieces: pieces}, nil)
					var asked time.Time
					n := 0
					r.Observe = func(e agent.Event) {
						switch {
						case e.Kind == agent.EventRequest:
							asked = time.Now()
						case e.Kind == agent.EventText:
							if n++; n == pieces {
								took += time.Since(asked)
							}
						}
					}
					if _, err := r.Run(b.Context(), agent.UserText("go")); err != nil || n != pieces {
						b.Fatal(err, n)
					}
				}
				b.ReportMetric(float64(took.Microseconds())/float64(b.N)/float64(pieces), "µs/piece")
			})
		}
	}
}

// A Runner in whose program the callers of its agent are not at work borrows from what they lend,
// as on a fleet, whose worker has loaded the whole tree.
func TestARunnerBorrowsFromItsCallers(t *testing.T) {
	for name, tt := range map[string]struct {
		above []agent.Loan
		ok    bool
	}{
		"lent by the caller of the caller": {nil, true},
		"kept back by the caller":          {[]agent.Loan{}, false},
	} {
		m := &lentModel{pieces: 1}
		r := &runner.Runner{Agent: borrowing("leaf"), Callers: []*agent.Agent{
			{Slug: "top", Lend: []agent.Loan{{Name: "smart", Model: "served", Provider: m}}},
			{Slug: "mid", Lend: tt.above},
		}}
		out, err := r.Run(t.Context(), agent.UserText("go"))
		if (err == nil) != tt.ok || (len(m.asked) == 1) != tt.ok || !tt.ok && !errors.Is(err, agent.ErrNoLoan) || tt.ok && out.Total.Usage != m.served {
			t.Errorf("%s: %v, %d requests", name, err, len(m.asked))
		}
	}
}
