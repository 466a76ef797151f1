package acpclient

import (
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
)

func TestAnAgentCannotSendWithoutEnd(t *testing.T) {
	talk := &talk{limit: time.Hour, idle: time.NewTimer(time.Hour)}
	defer talk.idle.Stop()
	for range 2 {
		if err := talk.seen(maxBytes / 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := talk.seen(1); err == nil {
		t.Errorf("more than %d bytes are accepted", maxBytes)
	}
}

// An answer about a program, or about what it asks permission for, does not hold for another
// program, or one in another folder, whose agent file has the same name.
func TestAPersonsAnswerHoldsForOneProgram(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []process.Command{{Path: "a", Dir: "/one"}, {Path: "a", Dir: "/other"}, {Path: "b", Dir: "/one"}, {Path: "a", Args: []string{"x"}, Dir: "/one"}} {
		a := &Agent{Source: "agent.json", Command: c}
		_, digest := a.Identity()
		_, asked := agent.Identified(&permit{&talk{agent: a}, "edit"}).Identity()
		if seen[digest] || digest != asked {
			t.Errorf("%+v: digest %q, of a permission %q", c, digest, asked)
		}
		seen[digest] = true
	}
}
