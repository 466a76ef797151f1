package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/transcript"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
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

func sessionListCommand(p *program) *cli.Command {
	var asJSON bool
	var limit int
	return &cli.Command{
		Description: "--agent SLUG lists those of one agent.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &asJSON},
			&cli.IntFlag{Name: "limit", Usage: "at most `N` sessions", HideDefault: true, Destination: &limit},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if limit < 0 || c.IsSet("limit") && limit == 0 {
				return usage("", "--limit %d: it must be positive", limit)
			}
			return p.listSessions(c.String(sessionDir), limit, asJSON)
		},
	}
}

// listSessions prints the sessions in the folder that is named, or where they are
// kept.
func (p *program) listSessions(dir string, limit int, asJSON bool) error {
	s := &sessions{program: p, dir: dir}
	dirs, err := s.folders()
	if err != nil {
		return err
	}
	want := func(i *session.Info) bool { return p.global.agent == "" || i.Agent == p.global.agent }
	found, listErr := session.List(session.Filter{Limit: limit, Want: want}, dirs...)
	list := []listedSession{}
	for _, i := range found {
		list = append(list, listed(i))
	}
	if asJSON {
		err = p.writeJSON(list)
	} else {
		err = p.printTable(list, dirs)
	}
	if err == nil && listErr != nil {
		err = &failure{code: exitFailed, err: listErr}
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
func (p *program) printTable(list []listedSession, dirs []string) error {
	if len(list) == 0 {
		p.note("there are no sessions in %s", strings.Join(dirs, ", "))
		return nil
	}
	rows := make([][]string, len(list))
	width := make([]int, 6)
	for i, l := range list {
		cost := "-"
		if l.Usage.Priced > 0 {
			cost = transcript.Money(l.Usage.Cost)
		}
		rows[i] = []string{line(l.ID, 100), l.Changed.Local().Format("2006-01-02 15:04"), line(l.Agent, 24), l.state(), fmt.Sprintf("%d turns", l.Turns), cost}
		if l.Turns == 1 {
			rows[i][4] = "1 turn"
		}
		for k, cell := range rows[i] {
			width[k] = max(width[k], utf8.RuneCountInString(cell))
		}
	}
	room := p.room()
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
		b.WriteString(line(text, max(room-utf8.RuneCountInString(b.String()[start:]), 20)) + "\n")
	}
	_, err := p.out.Write([]byte(b.String()))
	return err
}

// room is how many characters a line may have.
func (p *program) room() int {
	if p.outTerm {
		if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 300
}

func sessionCallsCommand(p *program) *cli.Command {
	var asJSON, failed bool
	var tool string
	return &cli.Command{
		ArgsUsage: "ID",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &asJSON},
			&cli.BoolFlag{Name: "failed", Usage: "only calls that failed", Destination: &failed},
			&cli.StringFlag{Name: "tool", Usage: "only calls of the tool `NAME`", Destination: &tool},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			name, err := oneArgument(c, "the session's id")
			if err != nil {
				return err
			}
			s := p.sessions(c)
			events, err := s.open(name)
			if err != nil {
				return err
			}
			want := func(c transcript.CallOf) bool { return (tool == "" || c.Name == tool) && (!failed || c.Failed()) }
			return p.printCalls(events, want, asJSON)
		},
	}
}

// A listedCall is a call in `session calls --json`.
type listedCall struct {
	Turn    int          `json:"turn"`
	Session string       `json:"session"`
	Agent   string       `json:"agent"`
	Depth   int          `json:"depth"`
	Tool    string       `json:"tool"`
	CallID  string       `json:"call_id"`
	Key     string       `json:"key"`
	Args    string       `json:"args"`
	Argv    []string     `json:"argv,omitempty"`
	Started *time.Time   `json:"started,omitempty"`
	Millis  int64        `json:"millis"`
	Runs    int          `json:"runs"`
	Outcome string       `json:"outcome"` // ok, failed, open
	Result  []agent.Part `json:"result,omitempty"`
}

func newListedCall(c transcript.CallOf) listedCall {
	l := listedCall{
		Turn: c.Turn, Session: c.Session, Agent: c.Agent, Depth: c.Depth, Tool: c.Name, CallID: c.ID, Key: c.Key, Args: c.Args,
		Argv: c.Argv, Millis: c.Millis, Runs: c.Runs, Outcome: "open",
	}
	if !c.Started.IsZero() {
		l.Started = &c.Started
	}
	if c.Result != nil {
		l.Outcome, l.Result = "ok", c.Result.Parts
	}
	if c.Failed() {
		l.Outcome = "failed"
	}
	return l
}

func (p *program) printCalls(events source, want func(transcript.CallOf) bool, asJSON bool) error {
	sum, err := summary(events)
	if err != nil {
		return err
	}
	w, flush := p.output()
	var readErr error
	n := 0
	for t, err := range transcript.Turns(events) {
		if err != nil {
			readErr = err
			break
		}
		for c := range t.All(sum.ID, sum.Agent) {
			if !want(c) {
				continue
			}
			text := callText(c)
			if asJSON {
				text = jsonElement(newListedCall(c), n)
			}
			n++
			if _, err := w.Write([]byte(text)); err != nil {
				return err
			}
		}
	}
	if asJSON {
		end := "\n]\n"
		if n == 0 {
			end = "[]\n"
		}
		if _, err := w.Write([]byte(end)); err != nil {
			return err
		}
	}
	if readErr != nil {
		return errors.Join(flush(), damaged(readErr))
	}
	return flush()
}

// callText is a call for a person: a line of facts, the arguments, the beginning of
// the result.
func callText(c transcript.CallOf) string {
	state := newListedCall(c).Outcome
	if c.Millis > 0 {
		state += ", " + transcript.Elapsed(time.Duration(c.Millis)*time.Millisecond)
	}
	if !c.Started.IsZero() {
		state += ", " + c.Started.Local().Format("2006-01-02 15:04:05")
	}
	indent := strings.Repeat("  ", c.Depth)
	text := fmt.Sprintf("%s%s turn %d: %s (%s)\n", indent, line(c.Agent, 60), c.Turn, line(c.Name, 100), state)
	if args := line(c.Args, 300); args != "" && args != "{}" {
		text += fmt.Sprintf("%s  arguments: %s\n", indent, args)
	}
	if c.Result != nil {
		text += fmt.Sprintf("%s  result: %s\n", indent, line(c.Result.Text(), 300))
	}
	return text
}
