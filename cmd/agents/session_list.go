package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
)

// A listedSession is a session in `session list --json`.
type listedSession struct {
	ID      string       `json:"id"`
	Path    string       `json:"path"`
	Dir     string       `json:"dir,omitempty"` // the working folder
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
		Action: command.WithoutArguments(func(_ context.Context, c *cli.Command) error {
			if limit < 0 || c.IsSet("limit") && limit == 0 {
				return failure.Usage("", "--limit %d: it must be positive", limit)
			}
			return listSessions(sessions.Of(p, c), limit, asJSON)
		}),
	}
}

// maxListed is how many sessions a table has unless --limit says otherwise: each is read to its
// end, which takes a minute for 100,000.
const maxListed = 500

// listSessions prints the sessions in the folder that is named, or where they are
// kept.
func listSessions(s *sessions.Store, limit int, asJSON bool) error {
	p := s.Env
	dirs, err := s.Folders()
	if err != nil {
		return err
	}
	more := 0
	if limit == 0 && !asJSON {
		limit, more = maxListed, 1
	}
	want := func(i *session.Info) bool { return p.Global.Agent == "" || i.Agent == p.Global.Agent }
	found, listErr := session.List(session.Filter{Limit: limit + more, Want: want}, dirs...)
	if more > 0 && len(found) > limit {
		found = found[:limit]
		defer p.Note("these are the latest %d sessions: --limit N lists N", limit)
	}
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
		ID: i.ID, Path: i.Path, Dir: i.Dir, Agent: i.Agent, Model: i.Model, Prompt: i.Prompt, Turns: i.Turns, Usage: i.Usage, Outcome: i.Status,
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

// printTable writes a header and a line for each session. Times are in UTC, as the time
// in an id is.
func printTable(p *program.Env, list []listedSession, dirs []string) error {
	if len(list) == 0 {
		of := ""
		if p.Global.Agent != "" {
			of = " of agent " + p.Global.Agent
		}
		p.Note("there are no sessions%s in %s", of, strings.Join(dirs, ", "))
		return nil
	}
	rows := [][]string{{"ID", "CHANGED (UTC)", "AGENT", "ENDED", "TURNS", "COST", "PROMPT"}}
	for _, l := range list {
		cost := cmp.Or(l.Usage.CostText(), "-")
		rows = append(rows, []string{program.OneLine(l.ID, 100), l.Changed.UTC().Format("2006-01-02 15:04"), program.OneLine(l.Agent, 24),
			program.OneLine(l.state(), 24), strconv.Itoa(l.Turns), cost, cmp.Or(l.Error, l.Prompt)})
	}
	width := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for k := range width {
			width[k] = max(width[k], utf8.RuneCountInString(row[k]))
		}
	}
	// Where a line has no room for the beginning of a prompt, columns are left out.
	const least = 20
	left := p.Room()
	for _, w := range width {
		left -= w + 2
	}
	for len(width) > 1 && left < least {
		left += width[len(width)-1] + 2
		width = width[:len(width)-1]
	}
	var b strings.Builder
	for _, row := range rows {
		for k, w := range width {
			b.WriteString(row[k] + strings.Repeat(" ", w-utf8.RuneCountInString(row[k])+2))
		}
		b.WriteString(program.OneLine(row[len(row)-1], max(left, least)) + "\n")
	}
	_, err := p.Out.Write([]byte(b.String()))
	return err
}
