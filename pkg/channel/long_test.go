package channel

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
)

// turn has a call, and its result.
func turn(n int, result ...agent.Part) []agent.Event {
	id, key := fmt.Sprint("call", n), fmt.Sprintf("S.%d.1", n)
	ended := of(agent.Event{Kind: agent.EventCallEnded, CallID: id, Tool: "t", Key: key, N: 1, Result: &agent.ToolResult{CallID: id, Name: "t", Parts: result}})
	started := of(agent.Event{Kind: agent.EventCallStarted, CallID: id, Tool: "t", Key: key, N: 1})
	return []agent.Event{answer(agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: id, Name: "t", Args: "{}"}}}, one), started, ended}
}

// An agent in another process that has run for long continues when its caller is resumed:
// what a compaction has replaced is not sent, and attachments only as far as there is room.
func TestALongAgentIsResumed(t *testing.T) {
	text, image := agent.Text(strings.Repeat("x", 2<<10)), agent.Part{Kind: agent.PartMedia, MIME: "image/png", Data: make([]byte, MaxLine/4*3/2+1)}
	short := of(agent.Event{Kind: agent.EventCompaction, Messages: []agent.Message{agent.UserText("short")}, Turn: 12})
	for _, tt := range []struct {
		name  string
		turns [][]agent.Event
		want  []string // in the history
		not   string
	}{
		{"compaction", [][]agent.Event{turn(1, text), turn(2, text), {short}, turn(13, agent.Text("new"))}, []string{`"text":"short"`, `"text":"new"`}, "xxx"},
		{"attachments", [][]agent.Event{turn(1, image), turn(2, image)}, []string{"[an attachment of 6291457 bytes (image/png) is too long for the channel]", `"mime":"image/png"`}, "xxx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, events := callChild(t, func(p *peer) {
					p.in.Scan()
					p.send(session(), prompt())
					for _, events := range tt.turns {
						p.send(events...)
					}
				}, nil)
				if c.err == nil {
					t.Fatal("the agent did not end early")
				}
				n := 0
				before := upTo(events, func(e agent.Event) bool {
					if e.Kind == agent.EventCallEnded && e.Session == "S" {
						n++
					}
					return n == len(tt.turns) || n == len(tt.turns)-1 && tt.name == "compaction"
				})
				var got string
				c, _ = resumeChild(t, before, func(p *peer) {
					p.in.Buffer(nil, MaxLine+1)
					p.in.Scan()
					got = p.in.Text()
					p.send(of(agent.Event{Kind: agent.EventResume}), answer(says("hi"), one), end(agent.StatusOK, "hi"))
				}, nil)
				if c.err != nil || c.result.Text() != "hi" {
					t.Errorf("the agent ends with %.200q, %v", c.result.Text(), c.err)
				}
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("the start message of %d bytes has no %s", len(got), want)
					}
				}
				if strings.Contains(got, tt.not) {
					t.Errorf("the start message has %q", tt.not)
				}
				if s, err := DecodeStart([]byte(got)); err != nil || len(s.History) == 0 {
					t.Errorf("DecodeStart = %d events, %v", len(s.History), err)
				}
			})
		})
	}
}

// Attachments that are too long for a line are left out wherever an event has them.
func TestAttachmentsThatAreTooLongAreLeftOut(t *testing.T) {
	whole := []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: make([]byte, MaxLine/4*3)}} // a line in base64
	half := []agent.Part{{Kind: agent.PartMedia, MIME: "image/png", Data: whole[0].Data[:MaxLine/4*3/2]}}
	events := func() map[string]agent.Event {
		return map[string]agent.Event{
			"message":    {Message: &agent.Message{Parts: whole}},
			"result":     {Result: &agent.ToolResult{Parts: whole}},
			"compaction": {Messages: []agent.Message{{Parts: half}, {Results: []agent.ToolResult{{Parts: half}}}}},
		}
	}
	before := events()
	for name, e := range events() {
		line, err := EncodeEvent(e)
		if err != nil || !strings.Contains(string(line), "is too long for the channel") {
			t.Errorf("%s: EncodeEvent = %.200s, %v", name, line, err)
		}
		if !reflect.DeepEqual(e, before[name]) || len(whole[0].Data)+len(half[0].Data) != MaxLine/4*3*3/2 {
			t.Errorf("%s: EncodeEvent has changed the event", name)
		}
	}
}
