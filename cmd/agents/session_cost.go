package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func sessionCostCommand(p *program.Env) *cli.Command {
	var asJSON bool
	return &cli.Command{
		ArgsUsage: "[ID]",
		Description: `Prints a line for each agent of the tree: what it consumed itself and, in the column
TREE, the cost including all agents below it. Lines such as "by fast" are the part of a line
that another model of the agent (fallback) answered. Sessions that other processes stored for
calls of the tree are included if they are in the same folder. Lines below the table say
which requests paid again for tokens that the server had cached before, and why.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object, with exact costs", Destination: &asJSON}},
		Action: command.WithOptional("the session's id", func(_ context.Context, c *cli.Command, name string) error {
			root, readErr := sessionCosts(sessions.Of(p, c), name)
			switch {
			case root == nil:
				return readErr
			case asJSON:
				return errors.Join(p.WriteJSON(root), readErr)
			}
			return errors.Join(p.Print(costTable(root, p.Room())), readErr)
		}),
	}
}

// sessionCosts reads a session and the sessions of other processes that answer its
// calls. With an error there may be a tree of what could be read.
func sessionCosts(s *sessions.Store, name string) (*transcript.CostNode, error) {
	path, err := s.Find(name)
	if err != nil {
		return nil, err
	}
	events, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	if _, err := sessions.Summary(events); err != nil {
		return nil, err
	}
	costs := &transcript.Costs{}
	err = costs.Add(events)
	nested := session.Nested(filepath.Dir(path))
	for done := 0; ; {
		keys := costs.Keys(done)
		if len(keys) == 0 {
			break
		}
		done += len(keys)
		for _, key := range keys {
			for _, path := range nested[key] {
				err = errors.Join(err, costs.Add(session.Events(path)))
			}
		}
	}
	if err != nil {
		err = sessions.Damaged(err)
	}
	return costs.Tree(), err
}

// costTable is the tree as aligned columns, with agents indented under their callers.
func costTable(root *transcript.CostNode, room int) string {
	rows := [][]string{{"AGENT", "ENDED", "REQUESTS", "IN", "CACHED", "OUT", "CALLS", "TIME", "COST", "TREE", "UNPRICED"}}
	var add func(n *transcript.CostNode, depth int)
	add = func(n *transcript.CostNode, depth int) {
		name := strings.Repeat("  ", min(depth, 10)) + program.OneLine(n.Agent, 60)
		rows = append(rows, costRow(name, program.OneLine(transcript.Outcome(n.Status), 24), &n.Figures, costCell(&n.Total)))
		for _, model := range slices.Sorted(maps.Keys(n.Fallback)) {
			rows = append(rows, costRow(strings.Repeat("  ", min(depth, 10))+"  by "+program.OneLine(model, 60), "", n.Fallback[model], ""))
		}
		for _, child := range n.Children {
			add(child, depth+1)
		}
	}
	add(root, 0)
	rows = append(rows, costRow("total", "", &root.Total, costCell(&root.Total)))
	if root.Total.Unpriced == 0 {
		for i := range rows {
			rows[i] = rows[i][:len(rows[i])-1]
		}
	}
	width := make([]int, len(rows[0]))
	for k := range width {
		for _, row := range rows {
			width[k] = max(width[k], utf8.RuneCountInString(row[k]))
		}
		if k > 0 {
			room -= width[k] + 2
		}
	}
	width[0] = min(width[0], max(room, 12))
	var b strings.Builder
	for _, row := range rows {
		if name := []rune(row[0]); len(name) > width[0] {
			row[0] = string(name[:width[0]-1]) + "…"
		}
		line := fmt.Sprintf("%-*s  %-*s", width[0], row[0], width[1], row[1])
		for k := 2; k < len(row); k++ { // numbers end on the right
			line += fmt.Sprintf("  %*s", width[k], row[k])
		}
		b.WriteString(line + "\n")
	}
	b.WriteString(lostCaches(root, "lost from the server's cache, and paid for again:\n"))
	return b.String()
}

// lostCaches lists the cache losses of the tree, with a title.
func lostCaches(n *transcript.CostNode, title string) (text string) {
	for _, l := range n.CacheLosses {
		text += title + "  " + program.OneLine(l.String(), 300) + "\n"
		title = ""
	}
	for _, child := range n.Children {
		if more := lostCaches(child, title); more != "" {
			text, title = text+more, ""
		}
	}
	return text
}

func costRow(name, ended string, f *transcript.Figures, tree string) []string {
	return []string{name, ended, strconv.Itoa(f.Requests), agent.Brief(f.InputTokens), agent.Brief(f.CachedTokens), agent.Brief(f.OutputTokens),
		strconv.Itoa(f.Calls), termtext.Elapsed(time.Duration(f.Millis) * time.Millisecond), costCell(f), tree, strconv.Itoa(f.Unpriced)}
}

// costCell is a cost with the same number of decimals in all rows.
func costCell(f *transcript.Figures) string {
	switch {
	case f.Requests == 0:
		return "-"
	case f.Cost == nil:
		return "unpriced"
	case *f.Cost > 0 && *f.Cost < agent.Dollar/20000:
		return "<$0.0001"
	}
	const unit = agent.Dollar / 10000
	whole, decimals, _ := strings.Cut(((*f.Cost + unit/2) / unit * unit).String(), ".")
	return "$" + whole + "." + decimals + strings.Repeat("0", 4-len(decimals))
}
