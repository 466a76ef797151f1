package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

type searchFlags struct {
	tool, since, until string
	limit              int
	asJSON             bool
}

func sessionSearchCommand(p *program.Env) *cli.Command {
	f := &searchFlags{}
	return &cli.Command{
		ArgsUsage: "WORDS...",
		Description: `All words must be in one text: a prompt, an answer, a call, a result. Words in one
argument, as "old lease", are found as they stand; one that ends in * finds what
begins so. --agent SLUG looks in texts of one agent.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tool", Usage: "only in calls of the tool `NAME` and their results", Destination: &f.tool},
			&cli.StringFlag{Name: "since", Usage: "only since `DATE`: 2026-11-21, 2026-11-21T15:30:00Z, or 36h or 7d ago", Destination: &f.since},
			&cli.StringFlag{Name: "until", Usage: "only before `DATE`", Destination: &f.until},
			&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N` texts", Destination: &f.limit},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON array", Destination: &f.asJSON},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			request, err := searchFor(sessions.Of(p, c), c.Args().Slice(), f, time.Now())
			if err != nil {
				return err
			}
			hits, err := sessions.Search(ctx, p, *request)
			if err != nil {
				return err
			}
			if f.asJSON {
				return p.WriteJSON(hits)
			}
			return showHits(p, hits)
		},
	}
}

// searchFor is what the flags and the words ask for.
func searchFor(s *sessions.Store, words []string, f *searchFlags, now time.Time) (*sessions.Query, error) {
	const hint = "`agents session search --help` says more"
	if len(words) == 0 {
		return nil, failure.Usage(hint, "session search: the words are missing")
	}
	if f.limit < 1 {
		return nil, failure.Usage("", "--limit %d: it must be positive", f.limit)
	}
	dirs, err := s.Folders()
	if err != nil {
		return nil, err
	}
	r := &sessions.Query{Words: words, Folders: dirs, Agent: s.Global.Agent, Tool: f.tool, Limit: f.limit}
	for _, date := range []struct {
		flag, value string
		to          *int64
	}{{"since", f.since, &r.Since}, {"until", f.until, &r.Until}} {
		if date.value == "" {
			continue
		}
		t, err := sessions.ParseDate(date.value, now)
		if err != nil {
			return nil, failure.Usage(hint, "--%s %s: %v", date.flag, date.value, err)
		}
		*date.to = t.UnixMilli()
	}
	return r, nil
}

// showHits writes the hits by session: the best session first, and in each the
// best text first.
func showHits(p *program.Env, hits []sessions.Hit) error {
	var order []string
	bySession := map[string][]sessions.Hit{}
	for _, h := range hits {
		if bySession[h.Path] == nil {
			order = append(order, h.Path)
		}
		bySession[h.Path] = append(bySession[h.Path], h)
	}
	if len(order) == 0 {
		p.Note("nothing was found")
	}
	room := p.Room()
	var b strings.Builder
	for i, path := range order {
		list := bySession[path]
		if i > 0 {
			b.WriteByte('\n')
		}
		head := fmt.Sprintf("%s  %s  %s  ", program.OneLine(list[0].Session, 100), time.UnixMilli(list[0].Began).UTC().Format("2006-01-02 15:04Z"), program.OneLine(list[0].RootAgent, 24))
		b.WriteString(head + program.OneLine(list[0].Prompt, max(room-len(head), 20)) + "\n")
		for _, h := range list {
			where := h.Kind
			if h.Tool != "" {
				where += " " + h.Tool
			}
			if h.Agent != h.RootAgent {
				where = h.Agent + ": " + where
			}
			fmt.Fprintf(&b, "  turn %d, %s: %s\n", h.Turn, program.OneLine(where, 80), snippet(p, h.Snippet))
		}
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}

// snippet is a piece of text with what was found in bold on a terminal.
func snippet(p *program.Env, pieces []sessions.Piece) string {
	var b strings.Builder
	for _, piece := range pieces {
		text := strings.Join(strings.Fields("."+termtext.Clean(piece.Text)+"."), " ")
		text = text[1 : len(text)-1] // with the blanks at its ends
		if piece.Match && p.Color(p.OutTerm) {
			text = "\x1b[1m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return strings.TrimSpace(b.String())
}
