// Package tui is the terminal interface of `agents cli` and `agents tui`: conversations with
// agents of an `agents serve`, as a client of its channel.
//
//	err := tui.Run(ctx, &tui.Options{Program: "/usr/bin/agents", Dir: dir, Keys: keys, In: os.Stdin, Out: os.Stdout})
//
// What is finished is printed into the scrollback of the terminal and never changes. Below
// it is the live region, at most a third of the screen: the tree of agents, what they ask,
// and the input. The inspector of the tree and the lists use the alternate screen.
//
// Everything shown comes from events: a talk has a view.Tree, to which it applies what
// arrives from its run. The model is changed by its Update alone; connections, child
// processes and the clock send it messages.
package tui

import (
	"context"
	"errors"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
)

// Options configure Run.
type Options struct {
	// Program is the path of agents, which serves and lists sessions, and Args are flags
	// that precede its commands.
	Program string
	Args    []string
	// Serve are flags of the server that is started.
	Serve []string
	// SessionDir is the folder with the sessions; "" is that of the configuration.
	SessionDir string
	// Yes allows what a person would be asked about, except where only a person may answer.
	Yes       bool
	Approvals Approvals
	// Tree shows the tree of agents in the live region. Without it calls are printed with all
	// that is below them.
	Tree bool
	// History is what was typed before; nil keeps none.
	History *input.History
	// URL is the server to use; "" starts one.
	URL string
	// Token returns the bearer token for URL; nil sends none.
	Token func() string
	// ReadToken returns the token in the file of a server of this machine, "" if it has
	// none.
	ReadToken func(file string) string
	// Dir is the folder for the socket of the server that is started; "" is that for
	// temporary files.
	Dir string
	// Servers is the folder with the servers of this machine: see remote.Locals.
	Servers string
	// Agent is the agent of the first conversation; "" is the first that the server has.
	Agent string
	// Session is the session to join or to continue; "" begins a conversation.
	Session string
	// Pick begins with the list of runs and sessions.
	Pick bool
	Keys *KeyMap
	// Color permits colors, and ASCII forbids other characters in what is drawn.
	Color, ASCII bool
	Environ      []string
	In, Out      *os.File
	Now          func() time.Time // nil means time.Now
}

// sizeOf returns the size of a window. A terminal that does not know it, such as a serial line, says
// 0, and then it is taken for one of 80 columns and 24 rows.
func sizeOf(f *os.File) (columns, rows int, err error) {
	columns, rows, err = term.GetSize(int(f.Fd()))
	if err == nil && (columns <= 0 || rows <= 0) {
		return 80, 24, nil
	}
	return columns, rows, err
}

// Run shows conversations at a terminal until the person leaves or ctx ends. Signals are left to
// the caller.
func Run(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	out := &terminal{File: o.Out, view: m.frames.last, cuts: cuts(o.Environ), size: func() (int, int, error) { return sizeOf(o.Out) }}
	profile := colorprofile.ANSI
	if !o.Color {
		profile = colorprofile.ASCII // bold, faint and reverse remain
	}
	var p *tea.Program
	p = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(out),
		tea.WithEnvironment(o.Environ), tea.WithColorProfile(profile),
		tea.WithoutSignalHandler(), // which waits for ever if a signal comes while the program ends
		tea.WithFilter(out.resized(func() *tea.Program { return p })))
	out.drawn = func() {
		if m.frames.drawn() {
			go p.Send(drawnMsg{})
		}
	}
	out.began = func() {
		m.frames.begin()
		go p.Send(drawnMsg{})
	}
	m.shows, m.resizing = out.alt.Load, func() bool { return out.held.Load() && !out.settled.Load() }
	out.left = func() { go p.Send(mainScreenMsg{}) }
	_, err := p.Run()
	m.leaveAll()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = m.err
	}
	return err
}
