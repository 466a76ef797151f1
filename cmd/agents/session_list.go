package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/transcript"
	"github.com/urfave/cli/v3"
)

// A listedSession is a session in `session list --json`.
type listedSession struct {
	ID      string       `json:"id"`
	Path    string       `json:"path"`
	Agent   string       `json:"agent"`
	Model   string       `json:"model,omitempty"`
	Prompt  string       `json:"prompt"`
	Turns   int          `json:"turns"`
	Usage   agent.Usage  `json:"usage"`
	Outcome agent.Status `json:"outcome,omitempty"`
	Began   time.Time    `json:"began"`
	Changed time.Time    `json:"changed"`
	Size    int64        `json:"size"`
	Parent  string       `json:"parent,omitempty"`
	PID     int          `json:"pid,omitempty"`
	Error   string       `json:"error,omitempty"`
}

func sessionListCommand(p *program.Env) *cli.Command {
	var asJSON bool
	var limit int
	return &cli.Command{
		Description: "--agent SLUG lists those of one agent.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &asJSON},
			&cli.IntFlag{Name: "limit", Usage: "at most `N` sessions", HideDefault: true, Destination: &limit},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			if limit < 0 || c.IsSet("limit") && limit == 0 {
				return failure.Usage("", "--limit %d: it must be positive", limit)
			}
			return listSessions(p, c.String(sessions.DirFlag), limit, asJSON)
		},
	}
}

// listSessions prints the sessions in the folder that is named, or where they are
// kept.
func listSessions(p *program.Env, dir string, limit int, asJSON bool) error {
	s := &sessions.Store{Env: p, Dir: dir}
	dirs, err := s.Folders()
	if err != nil {
		return err
	}
	want := func(i *session.Info) bool { return p.Global.Agent == "" || i.Agent == p.Global.Agent }
	found, listErr := session.List(session.Filter{Limit: limit, Want: want}, dirs...)
	list := []listedSession{}
	for _, i := range found {
		list = append(list, listed(i))
	}
	if asJSON {
		err = p.WriteJSON(list)
	} else {
		err = printTable(p, list, dirs)
	}
	if err == nil && listErr != nil {
		err = &failure.Error{Code: failure.ExitFailed, Err: listErr}
	}
	return err
}

func listed(i session.Info) listedSession {
	l := listedSession{
		ID: i.ID, Path: i.Path, Agent: i.Agent, Model: i.Model, Prompt: i.Prompt, Turns: i.Turns, Usage: i.Usage, Outcome: i.Status,
		Began: i.Started, Changed: i.Changed, Size: i.Size, Parent: i.Parent, PID: i.PID,
	}
	if i.Err != nil {
		l.Error = i.Err.Error()
	}
	return l
}

// state is how the last run of a session ended, or what keeps it from that.
func (l *listedSession) state() string {
	switch {
	case l.Error != "":
		return "damaged"
	case l.Outcome == "" && l.PID != 0:
		return "running"
	case l.Outcome == "":
		return "unfinished"
	}
	return string(l.Outcome)
}

// table writes a line for each session.
func printTable(p *program.Env, list []listedSession, dirs []string) error {
	if len(list) == 0 {
		p.Note("there are no sessions in %s", strings.Join(dirs, ", "))
		return nil
	}
	rows := make([][]string, len(list))
	width := make([]int, 6)
	for i, l := range list {
		cost := "-"
		if l.Usage.Priced > 0 {
			cost = transcript.Money(l.Usage.Cost)
		}
		rows[i] = []string{program.OneLine(l.ID, 100), l.Changed.Local().Format("2006-01-02 15:04"), program.OneLine(l.Agent, 24), l.state(), fmt.Sprintf("%d turns", l.Turns), cost}
		if l.Turns == 1 {
			rows[i][4] = "1 turn"
		}
		for k, cell := range rows[i] {
			width[k] = max(width[k], utf8.RuneCountInString(cell))
		}
	}
	room := p.Room()
	var b strings.Builder
	for i, l := range list {
		start := b.Len()
		for k, cell := range rows[i] {
			b.WriteString(cell + strings.Repeat(" ", width[k]-utf8.RuneCountInString(cell)+2))
		}
		text := l.Prompt
		if l.Error != "" {
			text = l.Error
		}
		b.WriteString(program.OneLine(text, max(room-utf8.RuneCountInString(b.String()[start:]), 20)) + "\n")
	}
	_, err := p.Out.Write([]byte(b.String()))
	return err
}
