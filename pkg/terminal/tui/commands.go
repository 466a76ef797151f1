package tui

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A saidMsg is what a command has to say.
type saidMsg struct {
	text string
	err  error
}

var errNoSession = errors.New("there is no session yet")

// command does a command of input.Commands.
func (m *model) command(name, args string) tea.Cmd {
	t := m.talk()
	c, err := input.Find(name, args)
	switch {
	case err != nil:
	case c.Idle && (t.busy() || m.job != nil):
		err = fmt.Errorf("/%s cannot be used while something is running; %s it", name, m.o.Keys.hint("stop", "stops"))
	case m.server == nil && t.own == nil && name != "quit" && name != "help":
		err = errors.New("the server is starting")
	}
	if err != nil {
		m.say("", err)
		return nil
	}
	switch name {
	case "help":
		m.say(m.helpText(), nil)
	case "new":
		return m.anew(t.agent)
	case "clear":
		return tea.Sequence(tea.ClearScreen, m.anew(t.agent))
	case "agents":
		return m.agentsText(t)
	case "agent":
		return m.anew(args)
	case "model":
		return m.chooseModel(t, args)
	case "tools":
		return m.toolsText(t)
	case "cost":
		m.say(t.costText(), nil)
	case "budget":
		m.say(t.setBudget(args))
	case "undo":
		return m.undo(t)
	case "fork":
		return m.copy(t, name)
	case "save":
		return m.save(t, args)
	case "compact":
		m.say(t.compact())
	case "attach":
		return m.attach(args)
	case "edit":
		return m.edit()
	case "quit":
		m.leave()
	}
	return nil
}

// say prints what a command has to say.
func (m *model) say(text string, err error) {
	if err != nil {
		m.print.add(m.failure(err.Error())...)
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		m.print.add(m.wrapped(line[:indent], line[indent:])...)
	}
}

// costText is what the conversation has consumed, by agent.
func (t *talk) costText() string {
	if t.tree.Root == nil || t.tree.Root.Total.Requests == 0 {
		return "  nothing yet"
	}
	agents := map[string]agent.Usage{}
	var add func(n *view.Node)
	add = func(n *view.Node) {
		agents[n.Agent] = agents[n.Agent].Add(n.Usage)
		for _, child := range n.Children {
			add(child)
		}
	}
	add(t.tree.Root)
	var b strings.Builder
	spent := func(who string, u agent.Usage) {
		fmt.Fprintf(&b, "  %-12s %3d requests  %s  %s\n", termtext.Visible(who), u.Requests, u.TokenText(), u.CostText())
	}
	for _, slug := range slices.Sorted(maps.Keys(agents)) {
		spent(slug, agents[slug])
	}
	spent("all", t.tree.Root.Total)
	return b.String()
}

func (m *model) helpText() string {
	format := "  %-24s  %s\n"
	if m.width < 60 {
		format = "  %s\n    %s\n"
	}
	var b strings.Builder
	for _, c := range input.Commands() {
		fmt.Fprintf(&b, format, c.Usage(), c.About)
	}
	for _, o := range input.Others {
		fmt.Fprintf(&b, format, o[0], o[1])
	}
	return b.String() + "  " + m.o.Keys.hint("help", "lists the keys, while nothing is typed")
}

// anew begins a conversation with an agent. One that runs continues beside it.
func (m *model) anew(slug string) tea.Cmd {
	t := m.talk()
	fresh := m.newTalk(slug, "")
	if slug == t.agent {
		fresh.server, fresh.apart, fresh.own, fresh.flags, fresh.budget = t.server, t.apart, t.own, t.flags, t.budget
	} else if i := m.agentIndex(slug); i < 0 {
		m.say("", fmt.Errorf("there is no agent %q%s", slug, closest.Hint(slug, m.slugs())))
		return nil
	}
	if t.busy() || t.waiting != nil {
		m.talks = append(m.talks, fresh)
		m.next(len(m.talks) - 1)
		return nil
	}
	m.talks[m.at] = fresh
	m.say("  a new conversation with "+slug, nil)
	return nil
}

func (m *model) slugs() (list []string) {
	if m.server == nil {
		return nil
	}
	for _, d := range m.server.agents {
		list = append(list, d.Name)
	}
	return list
}

func (m *model) agentIndex(slug string) int { return slices.Index(m.slugs(), slug) }

// serverOf is the server of a conversation, nil if none is connected.
func (m *model) serverOf(t *talk) *remote.Server {
	switch {
	case t.server != nil:
		return t.server
	case t.apart && !t.own.dead():
		return &t.own.Server
	case !t.apart && !m.server.dead():
		return &m.server.Server
	}
	return nil
}

// described asks the server about the agent of a conversation and says what text makes of it.
func (m *model) described(t *talk, text func(d *remote.Description) string) tea.Cmd {
	s := m.serverOf(t)
	if s == nil {
		m.say("", errors.New("there is no server"))
		return nil
	}
	slug := t.agent
	return func() tea.Msg {
		d, err := s.Describe(m.ctx, slug)
		if err != nil {
			return saidMsg{err: err}
		}
		return saidMsg{text: text(d)}
	}
}

// entryText is a line of a list.
func entryText(indent, name, detail, about string) string {
	line := indent + termtext.Visible(name)
	if detail != "" {
		line += " (" + termtext.Visible(detail) + ")"
	}
	about, _, _ = strings.Cut(about, "\n")
	return line + "  " + termtext.Visible(about) + "\n"
}

func (m *model) agentsText(t *talk) tea.Cmd {
	var others []remote.Description
	if m.server != nil {
		others = m.server.agents
	}
	model := ""
	if t.tree.Root != nil {
		model = t.tree.Root.Model
	}
	slug := t.agent
	return m.described(t, func(d *remote.Description) string {
		text := entryText("  ", d.Name, model, d.Description)
		for _, tool := range d.Tools {
			if tool.Agent != "" {
				text += entryText("    ", tool.Agent, "", tool.Description)
			}
		}
		for _, other := range others {
			if other.Name != slug {
				text += entryText("  ", other.Name, "", other.Description)
			}
		}
		return text
	})
}

func (m *model) toolsText(t *talk) tea.Cmd {
	return m.described(t, func(d *remote.Description) string {
		text := ""
		for _, tool := range d.Tools {
			kind := ""
			if tool.Agent != "" {
				kind = "agent"
			}
			text += entryText("  ", tool.Name, kind, tool.Description)
		}
		return cmp.Or(text, "  none\n")
	})
}

func (t *talk) setBudget(amounts string) (string, error) {
	b := t.budget
	for amount := range strings.SplitSeq(amounts, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(amount), "=")
		if !ok && amounts != "" {
			return "", fmt.Errorf("/budget %s: want AMOUNT=NUMBER, as usd=2,seconds=600", amounts)
		}
		if ok {
			if err := b.Set(name, value); err != nil {
				return "", fmt.Errorf("/budget %s: %w", amounts, err)
			}
		}
	}
	t.budget = b
	return "  each run: " + cmp.Or(b.String(), "no limits except those of the agent file and the server"), nil
}

func (t *talk) compact() (string, error) {
	if t.busy() {
		return "  the conversation will be shortened before the next request", t.run.held.Direct(agent.Directive{Compact: true})
	}
	t.shorten = true
	return "  the conversation will be shortened before the next request", nil
}

// A filesMsg asks whether the files that are put back, says text, go along with an undo.
type filesMsg struct {
	talk *talk
	text string
}

// undo takes back the last message. If there are files to put back, a person is asked.
func (m *model) undo(t *talk) tea.Cmd {
	only, id := m.copy(t, "undo"), t.session
	if id == "" {
		return only
	}
	return func() tea.Msg {
		out, _, err := command(m.ctx, m.o, "session", "undo", "--dry-run", id)
		if err != nil {
			return saidMsg{err: err}
		}
		if len(out) == 0 {
			return only()
		}
		return filesMsg{t, string(out)}
	}
}

func (m *model) askFiles(msg filesMsg) {
	m.say(msg.text, nil)
	files, only, id := "take back the message and put the files back", m.copy(msg.talk, "undo"), msg.talk.session
	m.show(&list{title: "put these files back? " + m.o.Keys.hint("close", "takes nothing back"), items: []item{{text: files}, {text: "take back only the message"}}, choose: func(i item) tea.Cmd {
		if i.text != files {
			return only
		}
		return func() tea.Msg {
			_, said, err := command(m.ctx, m.o, "session", "undo", "--yes", id)
			if err != nil {
				return saidMsg{err: err} // the next /undo takes back the message
			}
			msg := only()
			if open, ok := msg.(openMsg); ok {
				open.said = said + open.said
				return open
			}
			return msg
		}
	}})
}

// copy continues the conversation in a copy of its session, with undo without the last
// message.
func (m *model) copy(t *talk, name string) tea.Cmd {
	if t.session == "" {
		m.say("", errNoSession)
		return nil
	}
	was := t.session
	args := []string{"session", "fork", was}
	if name == "undo" {
		args = []string{"session", "fork", "--undo", was}
	}
	slug := t.agent
	return func() tea.Msg {
		out, said, err := command(m.ctx, m.o, args...)
		if err != nil {
			return saidMsg{err: err}
		}
		msg := openMsg{session: session{ID: strings.TrimSpace(string(out)), Agent: slug}, in: t, said: said + "  session " + was + " stays as it was"}
		if name == "fork" {
			msg.said = "  a copy: session " + msg.ID + "; " + was + " stays as it is"
		}
		if msg.ID != "" {
			var list []agent.Event
			list, msg.err = events(m.ctx, m.o, msg.ID)
			msg.tree = treeOf(list)
		}
		return msg
	}
}

// reopened makes the copy of its session the session of a conversation.
func (m *model) reopened(msg openMsg) {
	t := msg.in
	t.session, t.tree, t.printed = msg.ID, cmp.Or(msg.tree, &view.Tree{}), 0
	if root := t.tree.Root; root != nil {
		t.printed = len(root.Entries)
	}
	m.say(msg.said, nil)
}

func (m *model) save(t *talk, name string) tea.Cmd {
	if t.session == "" {
		m.say("", errNoSession)
		return nil
	}
	id := t.session
	return func() tea.Msg {
		out, _, err := command(m.ctx, m.o, "session", "show", id)
		if err != nil {
			return saidMsg{err: err}
		}
		f, err := os.OpenFile(input.ExpandHome(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_, err = f.Write(out)
			err = errors.Join(err, f.Close())
		}
		return saidMsg{"  " + name, err}
	}
}

// attach shows a session or a run, or one of a list: of this machine, or of the server at a
// URL.
func (m *model) attach(args string) tea.Cmd {
	where, tokens, _ := strings.Cut(args, " ")
	switch {
	case where == "":
		return m.showSessions()
	case !strings.Contains(where, "://") && !strings.HasPrefix(where, wsconn.Socket):
		return m.join(session{ID: where})
	}
	s := &remote.Server{URL: where, Token: func() string { return m.o.tokenOf(strings.TrimSpace(tokens)) }}
	l := &list{title: "runs of " + where, choose: func(i item) tea.Cmd { return m.join(i.value.(session)) }}
	m.show(l)
	now := m.now()
	return func() tea.Msg {
		runs, err := s.Runs(m.ctx)
		var items []item
		for _, r := range goingOn(s, runs) {
			items = append(items, r.item(now))
		}
		return itemsMsg{l, items, err}
	}
}

// edit opens the person's editor for a message.
func (m *model) edit() tea.Cmd {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	f, err := os.CreateTemp("", "message-*.md")
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		m.say("", err)
		return nil
	}
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, f.Name())
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		defer os.Remove(f.Name())
		text, readErr := os.ReadFile(f.Name())
		if err = errors.Join(err, readErr); err != nil {
			return saidMsg{err: fmt.Errorf("edit with %s: %w", editor, err)}
		}
		return editedMsg(strings.TrimRight(string(text), "\n"))
	})
}

// editedMsg is what the person wrote with an editor.
type editedMsg string

// complete completes a command, its argument, or the name of a file, at the end of what is
// typed. It reports whether there was something to complete.
func (m *model) complete() bool {
	before := m.input.Value()
	start, candidates := input.Complete(before, func(command string) []string {
		switch command {
		case "agent":
			return m.slugs()
		case "attach":
			var ids []string
			for _, t := range m.talks {
				ids = append(ids, t.session)
			}
			return ids
		}
		return nil
	})
	if len(candidates) == 0 {
		return strings.HasPrefix(before, "/")
	}
	if common := input.Common(candidates); len(common) > len(before)-start {
		m.input.SetValue(before[:start] + common)
	} else if len(candidates) > 1 {
		m.message = strings.Join(candidates, "  ")
	}
	return true
}
