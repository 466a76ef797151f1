package tui

import (
	"context"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/terminal/input"
)

// A job is a command of the shell in progress. What it prints is read with next.
type job struct {
	cancel  context.CancelFunc
	arrived chan struct{} // has a token when there is something to read

	mu     sync.Mutex
	text   string // that was not read
	over   bool
	output string // for the next message
	note   string
	err    error
}

// jobMsg is what a job has printed; lines are whole until it is over.
type jobMsg struct {
	job   *job
	lines string
	over  bool
}

// shell runs a command of the shell.
func (m *model) shell(command string) tea.Cmd {
	ctx, cancel := context.WithCancel(m.ctx)
	j := &job{cancel: cancel, arrived: make(chan struct{}, 1)}
	m.job = j
	go func() {
		output, note, err := input.Shell(ctx, command, j)
		cancel()
		j.mu.Lock()
		j.over, j.output, j.note, j.err = true, output, note, err
		j.mu.Unlock()
		j.wake()
	}()
	return j.next()
}

func (j *job) wake() {
	select {
	case j.arrived <- struct{}{}:
	default:
	}
}

// Write implements io.Writer.
func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	j.text += string(p)
	j.mu.Unlock()
	j.wake()
	return len(p), nil
}

func (j *job) next() tea.Cmd {
	return func() tea.Msg {
		<-j.arrived
		j.mu.Lock()
		defer j.mu.Unlock()
		n := len(j.text)
		if !j.over {
			n = strings.LastIndexByte(j.text, '\n') + 1
		}
		msg := jobMsg{j, j.text[:n], j.over}
		j.text = j.text[n:]
		return msg
	}
}

// jobPrinted shows what a job has printed, and keeps its output for the next message at its end.
func (m *model) jobPrinted(msg jobMsg) tea.Cmd {
	m.say(msg.lines, nil)
	j := msg.job
	if !msg.over {
		return j.next()
	}
	m.job = nil
	if j.err != nil {
		m.say("", j.err)
		return nil
	}
	m.say(j.note, nil)
	m.talk().outputs = append(m.talk().outputs, j.output)
	return nil
}
