package channel

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/runner"
)

// FuzzServer tests that a Server answers every input with well-formed lines, the last
// of which is the end.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		"", "{}", begin, begin + "\n", begin + "\n" + `{"kind":"cancel"}` + "\n", begin + "\n" + begin + "\n",
		begin + "\n" + `{"kind":"input","text":"and","media":[{"kind":"text","text":"more"}]}` + "\n" + `{"kind":"ack","seq":3}` + "\n",
		begin + "\n" + `{"kind":"result","key":"S.1.1","parts":[],"failed":true}` + "\n" + `{"kind":"reply","question":"q","answer":7}` + "\n",
		`{"kind":"start","channel":1,"args":{"prompt":"go"},"journal":true,"person":false,"tools":[{"name":"wait","schema":{"type":"object"}}],"lease":{"usd":1,"calls":0,"depth":-1,"seconds":0.5,"rights":[],"path":["a"]}}` + "\n",
		`{"kind":"start","channel":1,"session":"S","history":[{"kind":"session","session":"S","agent":"inner"},{"kind":"message","session":"S","message":{"role":"user","parts":[]}}]}` + "\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		synctest.Test(t, func(t *testing.T) {
			released := make(chan struct{})
			close(released)
			open := func(context.Context) (*runner.Runner, error) { return waiting(&wait{released}), nil }
			_, last, err := serve(t, open, false, func(h *holder) {
				h.write(string(input))
				time.Sleep(time.Hour)
				h.in.Close()
			})
			if last.Status != agent.StatusOf(err) {
				t.Errorf("the end is %+v, the error %v", last, err)
			}
		})
	})
}

// FuzzConn tests that a call of an agent ends, whatever the agent writes, and that its
// caller has a journal that can be read.
func FuzzConn(f *testing.F) {
	lines := func(events ...agent.Event) string {
		var b strings.Builder
		(&peer{out: &b}).send(events...)
		return b.String()
	}
	done := of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}})
	sub := agent.Event{Kind: agent.EventSession, Session: "T", Agent: "sub", Parent: "S.1.1", Depth: 1}
	for _, s := range []string{
		"", "x\n", "{}\n",
		lines(session(), prompt(), answer(says("hi"), one), end(agent.StatusOK, "hi")),
		lines(session(), prompt(), answer(calls("t", "{}"), one), started("S.1.1"), sub, done, answer(says("hi"), one), end(agent.StatusPartial, "hi")),
		lines(session(), of(agent.Event{Kind: agent.EventQuestion, Question: "q", What: "approve"}), of(agent.Event{Kind: agent.EventClientCall, Key: "S.1.1"}), end(agent.StatusFailed, "")),
		lines(agent.Event{Kind: agent.EventEnd, Status: agent.StatusLimit, Error: "too deep"}),
	} {
		f.Add([]byte(s), []byte{})
	}
	for _, script := range []string{
		"\x00\x00\x00\x00\x04\x00\x00\x01\x01\x00\x00\x20",                                 // a resume without a message, and a second attempt
		"\x00\x00\x00\x00\x06\x00\xfa\x00",                                                 // a compaction without a message
		"\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x02\x00\x08\x00\x00\x00\x00\x01\x00\x00", // a sub-agent
	} {
		f.Add([]byte(lines(end(agent.StatusOK, "hi"))), []byte(script))
	}
	f.Fuzz(func(t *testing.T, output, script []byte) {
		synctest.Test(t, func(t *testing.T) {
			c, events := callChild(t, func(p *peer) {
				p.send(agenttest.Events(script[:min(len(script), 4*200)])...)
				p.raw(string(output))
			}, func(r *runner.Runner) {
				r.Person = func(context.Context, agent.Event) (json.RawMessage, error) { return nil, errors.New("no") }
			})
			var b runner.Rebuilder
			for _, e := range events {
				if err := b.Apply(e); e.Kind.Lasting() && err != nil {
					t.Errorf("%v, after the child %v", err, c.err)
				}
			}
			if from, _ := b.Resume(); from.Session.Unfinished() {
				t.Error("the caller did not end")
			}
		})
	})
}
