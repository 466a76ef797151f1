package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// located is an agent whose folder is known from its tool alone.
type located struct {
	*backgroundAgent
	dir string
}

func (l located) WorkDir() string { return l.dir }

// TestConditionsAboutFilesHoldAfterACrash at every event at which an agent works or has ended.
func TestConditionsAboutFilesHoldAfterACrash(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "out.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var done []string
		create := func() *agent.Agent {
			a := leaving(5*time.Second, &done, waits)
			list := a.Toolsets[0].(agent.ToolList)
			b := list[0].(*backgroundAgent)
			b.Expect.Accept = []agent.Condition{{File: "out.txt"}}
			list[0] = located{b, dir}
			return a
		}
		for at := 4; ; at++ {
			died := &dying{at: at}
			if _, err := (&runner.Runner{Agent: create(), Journal: died}).Run(t.Context(), agent.UserText("go")); !errors.Is(err, agent.ErrJournal) {
				break
			}
			var b runner.Rebuilder
			for _, e := range died.events {
				if err := b.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			from, _ := b.Resume()
			out, err := (&runner.Runner{Agent: create(), From: from}).Resume(t.Context())
			if err != nil || !strings.Contains(out.Answer, "slow's answer") || strings.Contains(out.Answer, "not accepted") {
				t.Errorf("dead before event %d: %q, %v", at, out.Answer, err)
			}
		}
	})
}
