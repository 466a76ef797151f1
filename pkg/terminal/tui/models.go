package tui

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// modelMsg is the server that was started for the models of a conversation.
type modelMsg struct {
	talk   *talk
	name   string
	flags  []string
	server *server
	err    error
}

// chooseModel starts a server with another model for the conversation; without a name it
// lists the models to choose from.
func (m *model) chooseModel(t *talk, name string) tea.Cmd {
	if m.o.URL != "" || t.server != nil {
		m.say("", errors.New("/model is not available here: the server was not started by this program"))
		return nil
	}
	if name == "" {
		return m.listModels(t)
	}
	flags := append(slices.Clone(t.flags), "--model", name)
	serving := t.serving(flags)
	return func() tea.Msg {
		s, err := connect(m.ctx, m.o, serving...)
		return modelMsg{t, name, flags, s, err}
	}
}

// serving are the flags of the conversation's own server.
func (t *talk) serving(flags []string) []string {
	if t.of != "" {
		return append([]string{"--agent-of", t.of}, flags...)
	}
	return flags
}

func (m *model) modelChosen(msg modelMsg) {
	t := msg.talk
	if msg.err != nil {
		m.say("", msg.err)
		return
	}
	t.apart, t.own, t.flags = true, msg.server, msg.flags
	m.owned = append(m.owned, msg.server)
	m.say("  "+msg.name, nil)
}

// leaveServers leaves those that no conversation uses any more, such as after another /model.
func (m *model) leaveServers() {
	m.owned = slices.DeleteFunc(m.owned, func(s *server) bool {
		used := slices.ContainsFunc(m.talks, func(t *talk) bool { return t.own == s })
		if !used && s.leave != nil {
			s.leave()
		}
		return !used
	})
}

// listModels lists the models that have a price, and, once it has answered, those that the agent's
// model server offers.
func (m *model) listModels(t *talk) tea.Cmd {
	l := &list{title: "models", note: "reading the prices", choose: func(i item) tea.Cmd { return m.chooseModel(t, i.text) }}
	if root := t.tree.Root; root != nil && root.Model != "" {
		l.title += "; now " + root.Model
	}
	m.show(l)
	ask := func(args ...string) itemsMsg {
		out, _, err := command(m.ctx, m.o, args...)
		var offers []struct {
			Name    string   `json:"model"`
			Hosts   []string `json:"hosts"`
			Offered bool     `json:"offered"`
		}
		if err == nil {
			err = json.Unmarshal(out, &offers)
		}
		var items []item
		for _, o := range offers {
			note := strings.Join(o.Hosts, " ")
			if o.Offered {
				note += ", offered"
			}
			items = append(items, item{text: o.Name, note: note})
		}
		return itemsMsg{l, items, err}
	}
	slug := t.agent
	return tea.Sequence(func() tea.Msg { return ask("prices", "--json") }, func() tea.Msg {
		if msg := ask("--agent", slug, "prices", "--online", "--json"); msg.err == nil {
			return msg
		}
		return nil // the list keeps the models with a price
	})
}
