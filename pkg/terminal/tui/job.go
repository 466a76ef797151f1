package tui

import (
	"bytes"
	"context"
	"slices"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/terminal/input"
)

// A job is a command of the shell in progress. What it prints is read with next; a command that
// prints faster than that waits.
type job struct {
	ctx     context.Context
	cancel  context.CancelFunc
	talk    *talk         // whose next message has the output
	arrived chan struct{} // has a token when there is something to read
	taken   chan struct{} // has a token when something was read
	waits   bool          // for what was read to be printed
	stopped bool          // by the person
	ended   chan struct{} // closed when nothing of it runs

	mu     sync.Mutex
	text   []byte // that was not read
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

// How much of a job's output waits to be read, and how many lines of it to be printed.
const maxUnread, maxUnprinted = 1 << 20, 1000

// shell runs a command of the shell.
func (m *model) shell(command string) tea.Cmd {
	ctx, cancel := context.WithCancel(m.ctx)
	j := &job{ctx: ctx, cancel: cancel, talk: m.talk(), arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1), ended: make(chan struct{})}
	m.job = j
	go func() {
		defer close(j.ended)
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

// Write implements io.Writer. What is written after the job was stopped is lost.
func (j *job) Write(p []byte) (int, error) {
	for j.ctx.Err() == nil {
		j.mu.Lock()
		room := len(j.text) < maxUnread
		if room {
			j.text = append(j.text, p...)
		}
		j.mu.Unlock()
		if room {
			j.wake()
			break
		}
		select {
		case <-j.taken:
		case <-j.ctx.Done():
		}
	}
	return len(p), nil
}

func (j *job) next() tea.Cmd {
	return func() tea.Msg {
		<-j.arrived
		j.mu.Lock()
		defer j.mu.Unlock()
		n := len(j.text)
		if !j.over && n < maxUnread {
			n = bytes.LastIndexByte(j.text, '\n') + 1
		}
		msg := jobMsg{j, string(j.text[:n]), j.over}
		j.text = append(j.text[:0], j.text[n:]...)
		select {
		case j.taken <- struct{}{}:
		default:
		}
		return msg
	}
}

// jobPrinted shows what a job has printed, and keeps its output for the next message at its end.
func (m *model) jobPrinted(msg jobMsg) tea.Cmd {
	j := msg.job
	if !j.stopped {
		m.say(msg.lines, nil)
	}
	if !msg.over {
		return m.moreOfJob()
	}
	m.job = nil
	if j.err != nil {
		m.say("", j.err)
		return nil
	}
	m.say(j.note, nil)
	t := j.talk
	if !slices.Contains(m.talks, t) { // another conversation is in its place
		t = m.talk()
	}
	t.outputs = append(t.outputs, j.output)
	return nil
}

// moreOfJob reads on once most of what was read is printed.
func (m *model) moreOfJob() tea.Cmd {
	if m.job.waits = len(m.print.lines) > maxUnprinted; m.job.waits {
		return nil
	}
	return m.job.next()
}
