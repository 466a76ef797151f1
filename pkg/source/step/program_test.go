package step_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/source/step"
)

// program is an executable with a script of sh.
func program(t *testing.T, text string) *step.Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "step")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &step.Program{Path: path, Dir: filepath.Dir(path), Env: []string{"PATH=" + os.Getenv("PATH"), "WHO=me"}, Timeout: time.Minute}
}

func TestAProgramReadsTheStateAndWritesAnAction(t *testing.T) {
	p := program(t, `cat >state.json; printf '{"action":"talk","text":"%s in %s"}' "$WHO" "${PWD##*/}"`)
	a, err := p.Step(t.Context(), step.State{Session: step.Session{ID: "S"}, Task: step.Task{Title: "go"}})
	if want := "me in " + filepath.Base(p.Dir); err != nil || a.Text != want {
		t.Errorf("Step = %+v, %v, want %s", a, err, want)
	}
	if state, _ := os.ReadFile(filepath.Join(p.Dir, "state.json")); !strings.Contains(string(state), `"title":"go"`) {
		t.Errorf("it read %s", state)
	}
}

func TestWhatGoesWrongWithAProgram(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		change     func(*step.Program)
	}{
		"exit code":   {"echo broken >&2; exit 3", "exit status 3: broken", nil},
		"no action":   {"echo hello", "its output is not an action: invalid character", nil},
		"nothing":     {"true", "it printed no action", nil},
		"two actions": {`echo '{"action":"think","text":"a"} {"action":"think","text":"b"}'`, "its output is not an action: invalid character", nil},
		"bad action":  {`echo '{"action":"run"}'`, "action run: command is missing", nil},
		"too slow":    {"sleep 60", "no action within 100ms", func(p *step.Program) { p.Timeout = 100 * time.Millisecond }},
		"not there":   {"", "no such file", func(p *step.Program) { p.Path += "2" }},
		"refused":     {"", "it has changed", func(p *step.Program) { p.Verify = func() error { return errors.New("it has changed") } }},
		"too much":    {"yes | head -c 17000000", "more than 16777216 bytes", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := program(t, c.text)
			if c.change != nil {
				c.change(p)
			}
			if _, err := p.Step(t.Context(), step.State{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Step = %v, want %s", err, c.want)
			}
		})
	}
}

func TestCancelEndsTheProgram(t *testing.T) {
	p := program(t, `touch began; sleep 60`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(p.Dir, "began")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := p.Step(ctx, step.State{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Step = %v", err)
	}
}
