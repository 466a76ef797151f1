package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A model is what the program shows.
type model struct {
	ctx    context.Context // of what the program starts
	o      *Options
	server *server // nil until it answers
	// connecting means that a command looks for the server or starts it.
	connecting    bool
	connectedOnce bool

	talks []*talk
	at    int       // of the one that is shown
	owned []*server // the own servers of conversations
	print printer

	frames  frames
	printed bool // changes with every piece that is printed

	screen  screen // on the alternate screen; nil shows the live region
	opening screen // waits until everything is printed
	alt     bool   // the terminal shows the alternate screen, or is about to
	shows   func() (alt bool)
	// resizing reports that the window is being resized.
	resizing func() bool
	closing  bool // a closedMsg is about to come

	input   textarea.Model
	entered bool   // what is typed is sent once the session has been read or the server has started
	begun   string // the id of the question that was shown when what is typed was begun
	history *input.History
	recall  int          // of history; its length is the draft
	draft   string       // while an earlier prompt is shown
	search  *search      // of the history; nil if there is none
	job     *job         // nil if no command of the shell runs
	tree    bool         // the tree is in the live region
	folds   []*view.Call // whose results are folded in the scrollback

	width, height int
	message       string // for the person, until the next key
	armed         bool   // the next key of stop leaves
	leaving       bool
	late          bool  // it has been leaving for long enough
	err           error // why there is nothing to show
	ticking       bool
	resting       bool // a restedMsg is about to come
}

// A screen takes the alternate screen.
type screen interface {
	key(m *model, k tea.KeyPressMsg) tea.Cmd
	view(m *model) (lines []string, cursor *tea.Cursor)
}

type (
	connectedMsg struct {
		talk   *talk // that has a server of its own
		server *server
		err    error
	}
	// mainScreenMsg reports that the terminal shows the main screen again.
	mainScreenMsg struct{}
	// closedMsg comes a while after a screen was closed.
	closedMsg struct{}
	tickMsg   struct{}
	// drawnMsg reports that a frame was drawn and the next may be lower.
	drawnMsg struct{}
	// restedMsg comes a while after a frame that is higher than it should be.
	restedMsg struct{}
	// lateMsg ends the program, whatever the terminal shows.
	lateMsg struct{}
	// failedMsg is an error of something that was done for the person.
	failedMsg struct{ err error }
)

// leaveTime is how long the rows of the live region may take to disappear.
const leaveTime = 300 * time.Millisecond

// closeTime is how long the terminal may take to show the main screen again. A screen that was
// closed between two frames was never drawn, and then there is nothing that the terminal leaves.
const closeTime = 100 * time.Millisecond

func newModel(ctx context.Context, o *Options) *model {
	m := &model{ctx: ctx, o: o, width: 80, height: 24, input: newInput(o.Keys), history: o.History, tree: o.Tree, shows: func() bool { return false }}
	m.resizing = m.shows
	if m.history == nil {
		m.history = &input.History{}
	}
	m.recall = m.history.Len()
	m.talks = []*talk{m.newTalk(o.Agent, "")}
	m.talks[0].loading = o.Session != ""
	return m
}

// newInput returns the input of several lines. It draws no colors and no cursor of its
// own: those of the terminal serve every background.
func newInput(keys *KeyMap) textarea.Model {
	in := textarea.New()
	in.Prompt, in.ShowLineNumbers, in.CharLimit = "> ", false, 0
	in.DynamicHeight, in.MinHeight, in.MaxHeight, in.MaxContentHeight = true, 1, 5, 10_000
	in.SetVirtualCursor(false)
	plain := textarea.StyleState{Placeholder: lipgloss.NewStyle().Faint(true), Prompt: lipgloss.NewStyle().Bold(true), Selection: lipgloss.NewStyle().Reverse(true)}
	in.SetStyles(textarea.Styles{Focused: plain, Blurred: plain})
	in.KeyMap.InsertNewline = keys.bindings["newline"]
	in.Focus()
	return in
}

func (m *model) newTalk(slug, session string) *talk {
	t := &talk{agent: slug, session: session, tree: &view.Tree{}, yes: m.o.Yes}
	if m.o.URL == "" { // what another server runs is not of this folder
		t.approvals = m.o.Approvals
	}
	return t
}

func (m *model) talk() *talk { return m.talks[m.at] }

func (m *model) now() time.Time {
	if m.o.Now != nil {
		return m.o.Now()
	}
	return time.Now()
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	if m.o.Session == "" {
		return m.connect()
	}
	return tea.Batch(m.recent(m.o.Session), m.connect())
}

// connect looks for the server, or starts it.
func (m *model) connect() tea.Cmd {
	if m.connecting {
		return nil
	}
	m.connecting = true
	return func() tea.Msg {
		s, err := connect(m.ctx, m.o)
		return connectedMsg{server: s, err: err}
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	empty := m.input.Value() == ""
	shown := questionID(m.asks())
	cmd := m.update(msg)
	m.leaveServers()
	if empty && m.input.Value() != "" {
		m.begun = shown
	}
	return m, tea.Batch(cmd, m.printMore(), m.tick(), m.rest())
}

// rest has the live region drawn again if it stays higher than it should be.
func (m *model) rest() tea.Cmd {
	if m.resting || !m.frames.high() {
		return nil
	}
	m.resting = true
	return tea.Tick(settleTime+settleTime/10, func(time.Time) tea.Msg { return restedMsg{} })
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 10), max(msg.Height, 4)
		m.input.SetWidth(m.width)
		m.input.MaxHeight = max(1, m.liveRows()-3)
	case connectedMsg:
		m.entered = m.entered && msg.err == nil
		return m.sendEntered(m.connected(msg))
	case arrivedMsg:
		return m.arrived(msg)
	case printedMsg:
		m.print.piece, m.printed = nil, !m.printed
		if m.job != nil && m.job.waits {
			return m.moreOfJob()
		}
	case mainScreenMsg:
		m.alt = m.screen != nil
	case closedMsg:
		m.closing = false
		m.alt = m.screen != nil || m.shows()
	case lateMsg:
		m.late = true
	case tickMsg:
		m.ticking = false
	case restedMsg:
		if m.resting = false; !m.resizing() {
			m.frames.rest(time.Now().Add(-settleTime))
		}
	case failedMsg:
		m.message = msg.err.Error()
	case sessionsMsg:
		if l, ok := m.front().(*list); ok {
			l.found(m, msg)
		}
	case searchMsg:
		if l, ok := m.front().(*list); ok && l.search != nil && l.typed == string(msg) {
			return m.find(string(msg))
		}
	case recentMsg:
		m.openRecent(msg)
		return m.sendEntered(nil)
	case openMsg:
		m.entered = m.entered && msg.err == nil
		return m.sendEntered(m.open(msg))
	case itemsMsg:
		msg.list.fill(msg.items)
		if msg.err != nil {
			msg.list.note = msg.err.Error()
		}
	case saidMsg:
		m.say(msg.text, msg.err)
	case filesMsg:
		m.askFiles(msg)
	case modelMsg:
		m.modelChosen(msg)
	case jobMsg:
		return m.jobPrinted(msg)
	case editedMsg:
		m.input.SetValue(string(msg))
	case tea.ResumeMsg:
		m.printed = !m.printed
	case tea.KeyPressMsg:
		m.entered = false
		return m.key(msg)
	case tea.PasteMsg:
		m.entered = false
		return m.paste(msg)
	default: // what the input sends to itself
		var cmd tea.Cmd
		m.input, cmd = m.input.Update(msg)
		return cmd
	}
	return nil
}

// tick updates the elapsed times once a second while a run is in progress.
func (m *model) tick() tea.Cmd {
	if m.ticking || !slices.ContainsFunc(m.talks, (*talk).busy) {
		return nil
	}
	m.ticking = true
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} })
}

// printMore prints what is finished, opens a screen when nothing is left to be printed,
// and ends the program when the person leaves.
func (m *model) printMore() tea.Cmd {
	if m.resizing() { // it is printed for the width that follows
		return nil
	}
	if m.alt { // what is printed there would be lost
		if m.screen != nil || m.closing {
			return nil
		}
		m.closing = true
		return tea.Tick(closeTime, func(time.Time) tea.Msg { return closedMsg{} })
	}
	if !m.frames.some() {
		return nil
	}
	if cmd := m.print.next(m.height - m.liveRows() - 1); cmd != nil || m.print.busy() {
		return cmd
	}
	if m.leaving && (m.late || m.frames.low()) {
		return tea.Quit
	}
	if m.leaving { // until the live region has left no rows
		return tea.Tick(leaveTime, func(time.Time) tea.Msg { return lateMsg{} })
	}
	if m.opening != nil {
		m.screen, m.opening, m.alt = m.opening, nil, true
	}
	return nil
}

// show opens a screen, or with nil closes it.
func (m *model) show(s screen) {
	m.message = ""
	switch {
	case s == nil:
		m.screen, m.opening = nil, nil
	case m.alt:
		m.screen = s
	default:
		m.opening = s
	}
}

// front is the screen that is open or about to be: what is typed is meant for it.
func (m *model) front() screen {
	if m.opening != nil {
		return m.opening
	}
	return m.screen
}

// connected takes the server, and starts what waited for it.
func (m *model) connected(msg connectedMsg) tea.Cmd {
	if t := msg.talk; t != nil {
		return m.connectedApart(t, msg)
	}
	m.connecting = false
	if msg.err != nil && !m.connectedOnce {
		m.show(nil)
		m.err, m.leaving = msg.err, true
		return nil
	}
	if msg.err != nil {
		m.print.add(m.failure(msg.err.Error())...)
		for _, t := range m.talks {
			if !t.apart {
				t.waiting = nil
			}
		}
		return nil
	}
	first := !m.connectedOnce
	m.server, m.connectedOnce = msg.server, true
	if msg.server.notes != "" {
		m.print.add(m.styled("33", m.wrapped("", msg.server.notes))...)
	}
	var cmds []tea.Cmd
	for _, t := range m.talks {
		if t.agent == "" {
			t.agent = m.server.agents[0].Name
		}
		if t.waiting != nil && !t.apart && !t.loading {
			cmds = append(cmds, m.begin(t, *t.waiting))
		}
	}
	switch {
	case !first:
	case m.o.Session != "":
		cmds = append(cmds, func() tea.Msg { return m.load(session{ID: m.o.Session}, msg.server) })
	case m.o.Pick:
		cmds = append(cmds, m.showSessions())
	}
	return tea.Batch(cmds...)
}

// connectedApart handles the connection to the server of a conversation that has its own one.
func (m *model) connectedApart(t *talk, msg connectedMsg) tea.Cmd {
	start := t.waiting
	t.own, t.waiting = msg.server, nil
	if msg.err != nil {
		m.print.add(m.failure(msg.err.Error())...)
		return nil
	}
	m.owned = append(m.owned, msg.server)
	return m.begin(t, *start)
}

func (m *model) begin(t *talk, start agent.Start) tea.Cmd {
	s := m.serverOf(t)
	switch {
	case t.loading: // open begins it
		t.waiting = &start
		return nil
	case s != nil:
		return t.start(m.ctx, s, start)
	}
	t.waiting = &start
	if !t.apart {
		return m.connect()
	}
	flags := t.serving(t.flags)
	return func() tea.Msg {
		s, err := connect(m.ctx, m.o, flags...)
		return connectedMsg{t, s, err}
	}
}

func (m *model) arrived(msg arrivedMsg) tea.Cmd {
	t := msg.talk
	if t.run != msg.run {
		return nil // the person has left it
	}
	notices, over := t.apply(msg.items)
	if t == m.talk() {
		m.printTalk(t)
	}
	for _, n := range notices {
		m.print.add(m.styled("2", m.wrapped("! ", n))...)
	}
	if !over {
		return msg.run.next(t)
	}
	if t.reason != "" {
		m.print.add(m.failure(t.lost())...)
		if t.reason == serverEnded && t.server == nil { // the next run starts another
			if t.own = nil; !t.apart {
				m.server = nil
			}
		}
		t.server = nil
	} else if t.cancels > 0 && t == m.talk() {
		m.print.add(m.styled("2", m.wrapped("  ", "the conversation is kept: your next message goes on, /undo takes back the last one"))...)
	}
	switch {
	case len(t.sent) == 0:
	case t.reason == "" && t.cancels == 0: // it ended before it took them up
		return m.begin(t, m.prompt(t, t.sent...))
	case t == m.talk() && m.input.Value() == "":
		var texts []string
		for _, message := range t.sent {
			texts = append(texts, input.Typed(message.Text()))
		}
		m.input.SetValue(strings.Join(texts, "\n\n"))
	}
	t.sent = nil
	return nil
}

// asks returns the node whose question the input answers, nil if there is none: the one that
// is shown.
func (m *model) asks() *view.Node {
	s, ok := m.front().(*inspector)
	if !ok {
		return m.talk().tree.Question()
	}
	if n := s.chosen(); n != nil && n.Question != nil {
		return n
	}
	return nil
}

func questionID(n *view.Node) string {
	if n == nil || n.Question == nil {
		return ""
	}
	return n.Question.Question
}
