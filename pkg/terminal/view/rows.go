package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Layout says how a tree is drawn.
type Layout struct {
	// Width is the number of cells of a line; 0 means 80. Height is the number of lines;
	// 0 means any number.
	Width, Height int
	// Now is the time, by the clock of the events.
	Now time.Time
	// Color permits the 16 colors of the terminal's palette, ASCII nothing but ASCII.
	Color, ASCII bool
	// Ended shows sub-agents that have ended, too.
	Ended bool
	// Wide makes lines as wide as the longest task of an agent needs. It is not for lines that are
	// printed one after the other: their figures would not be in the same columns.
	Wide bool

	calls bool // those of sub-agents that have ended, too
}

// A Row is one line of a tree.
type Row struct {
	// Text is the line, never wider than Layout.Width, with colors if they are permitted.
	Text string
	// Node is the node of the row, or of its call or question; nil for the row that
	// counts what does not fit. Call is nil in rows of nodes and questions.
	Node *Node
	Call *Call

	line  *line
	asks  bool // it is the question of the node
	count int  // of what it stands for, if it is neither a node nor a call
	order int  // see rank
}

// Lines are the texts of Rows.
func (t *Tree) Lines(l Layout) []string {
	var lines []string
	for _, r := range t.Rows(l) {
		lines = append(lines, r.Text)
	}
	return lines
}

// Rows are what the tree does now: a row for each running agent, with its state, tokens,
// costs (both with those of its sub-agents) and time; below it the question that waits for a
// person, its running calls and, for a sub-agent, the calls that ended last. If they do not
// fit into the height, ended calls are left out first, and the last row counts the rest.
// The time that Rows takes depends on these rows alone, not on the conversations.
func (t *Tree) Rows(l Layout) []Row {
	if t.Root == nil {
		return nil
	}
	return l.draw(l.node(t.Root, nil))
}

// draw renders the rows that fit.
func (l Layout) draw(rows []Row) []Row {
	if l.Height > 0 && len(rows) > l.Height {
		rows = fit(rows, l.Height)
	}
	columns := l.fill(rows)
	for i := range rows {
		rows[i].Text = l.pen().aligned(*rows[i].line, columns)
	}
	return rows
}

// fill makes the lines of rows and measures them.
func (l Layout) fill(rows []Row) columns {
	for i := range rows {
		line := rows[i].content(l.Now)
		rows[i].line = &line
	}
	return l.columns(rows)
}

func (r *Row) content(now time.Time) line {
	switch {
	case r.Node == nil:
		return line{mark: markMore, label: fmt.Sprintf("and %d more", r.count)}
	case r.Call != nil:
		return r.Call.line(now)
	case r.count > 0:
		return line{depth: r.Node.Depth + 1, mark: markMore, label: fmt.Sprintf("%d calls before", r.count)}
	case r.asks:
		return line{depth: r.Node.Depth + 1, mark: markAsk, label: questionText(r.Node.Question)}
	}
	return r.Node.line(now)
}

func (l Layout) pen() pen { return pen{Color: l.Color, ASCII: l.ASCII} }

func (l Layout) node(n *Node, rows []Row) []Row {
	rows = append(rows, Row{Node: n, order: orderOf(n)})
	if n.Question != nil {
		rows = append(rows, Row{Node: n, asks: true, order: running})
	}
	ended := len(n.calls) - n.running
	before := n.dropped + max(ended-keptCalls, 0)
	switch {
	case before == 0:
	case l.calls:
		rows = append(rows, Row{Node: n, count: before})
	case l.Ended:
		for _, child := range n.Children {
			if child.Call == nil || !slices.Contains(n.calls, child.Call) {
				rows = l.node(child, rows)
			}
		}
	}
	calls := n.calls
	if !l.calls { // what runs is above what has ended
		calls = append(n.Running(), slices.DeleteFunc(slices.Clone(calls), func(c *Call) bool { return !c.State.Ended() })...)
	}
	for _, c := range calls {
		over := c.State.Ended()
		below := n.Parent != nil && ended <= keptCalls && (l.calls || !n.State().Ended())
		if over {
			ended--
		}
		switch {
		case c.Agent != nil && (!over || l.Ended):
			rows = l.node(c.Agent, rows)
		case over && !below:
		case c.Agent != nil:
			rows = append(rows, Row{Node: c.Agent, order: rank(c)})
		default:
			rows = append(rows, Row{Node: n, Call: c, order: rank(c)})
		}
	}
	return rows
}

// whole draws a call that ended and what is below it. Reasons that do not fit follow on lines
// of their own.
func (l Layout) whole(rows []Row) []string {
	columns := l.columns(rows)
	var out []string
	for i := range rows {
		r := *rows[i].line
		reason := ""
		indent := 2*min(r.depth, 10) + 2
		if r.mark != markOK && l.pen().room(r, columns) < termtext.Width(r.label)+2+termtext.Width(r.note) {
			r.note, reason = "", r.note
		}
		out = append(out, l.pen().aligned(r, columns))
		for _, s := range termtext.Wrap(l.pen().ascii(reason), max(columns.all-indent, 1)) {
			out = append(out, strings.Repeat(" ", indent)+l.pen().color(s, marks[r.mark].color))
		}
	}
	return out
}

// The orders of rows that run: agents, and what they ask, before calls.
const (
	running     = math.MaxInt
	runningCall = running - 1
)

// rank is the order in which rows are kept: the running ones before those that ended, and
// the later before the earlier.
func rank(c *Call) int {
	if !c.State.Ended() {
		return runningCall
	}
	return c.order
}

func orderOf(n *Node) int {
	if n.Call == nil || !n.State().Ended() {
		return running
	}
	return rank(n.Call)
}

// fit chooses at most n rows: the agents that run, from the top, then the running calls, then
// those that ended last. If there is no room for all that run, the last row counts the others.
func fit(rows []Row, n int) []Row {
	hidden := -n
	for _, r := range rows {
		if r.order >= runningCall {
			hidden++
		}
	}
	if hidden > 0 {
		n, hidden = n-1, hidden+1
	}
	ranked := make([]int, len(rows))
	for i := range rows {
		ranked[i] = i
	}
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(rows[b].order, rows[a].order) })
	slices.Sort(ranked[:n])
	var chosen []Row
	for _, i := range ranked[:n] {
		chosen = append(chosen, rows[i])
	}
	if hidden > 0 {
		chosen = append(chosen, Row{count: hidden})
	}
	return chosen
}

func (n *Node) line(now time.Time) line {
	s := n.State()
	l := line{depth: n.Depth, mark: stateMarks[s], name: termtext.Line(n.Agent, maxValue, "…"), label: n.Task, note: n.note}
	if l.label == "" && n.Call != nil {
		l.label = n.Call.short
	}
	l.tokens, l.cost, l.took = tokens(n.Total), cost(n.Total), termtext.Elapsed(n.Elapsed(now))
	switch {
	case !s.Ended():
		l.state = s.String()
	case s != Done:
		l.state, l.note = cmp.Or(termtext.Line(string(n.Status), 12, "…"), s.String()), n.Reason
	}
	return l
}

func (c *Call) line(now time.Time) line {
	l := line{depth: c.Node.Depth + 1, mark: stateMarks[c.State], label: c.label, note: cmp.Or(c.Reason, c.Note)}
	if c.Ran {
		l.took = termtext.Elapsed(c.Elapsed(now))
	}
	return l
}

// Line is the call as one line: mark, tool, arguments in short, outcome, time.
func (c *Call) Line(l Layout) string {
	own := c.line(l.Now)
	own.depth = 0
	return l.pen().aligned(own, l.columns([]Row{{line: &own}}))
}

// Lines are a call that has ended and all that is below it, as far as it is kept: a line for
// each agent and call, and further ones for the reasons of failures that do not fit.
func (c *Call) Lines(l Layout) []string { return l.whole(c.rows(l)) }

func (c *Call) rows(l Layout) []Row {
	l.Ended, l.calls = true, true
	rows := []Row{{Node: c.Node, Call: c}}
	if c.Agent != nil {
		rows = l.node(c.Agent, nil)
	}
	l.fill(rows)
	for i := range rows {
		rows[i].line.depth -= c.Node.Depth + 1
	}
	return rows
}

// questionText is what a question asks, with the path of agents to the one that asks.
func questionText(q *agent.Event) string {
	var path []string
	for _, slug := range q.Path {
		path = append(path, termtext.Line(slug, maxValue, "…"))
	}
	what := firstLine(q.Text, maxLabel, "…")
	if q.What == "approve" {
		what = words("approve", termtext.Line(q.Tool, maxLabel, "…"), shortArgs(q.Args, "…"))
	}
	return words(strings.Join(path, " > ")+":", what)
}

func tokens(u agent.Usage) string {
	if u.Requests == 0 {
		return ""
	}
	return agent.Brief(u.InputTokens) + " in " + agent.Brief(u.OutputTokens) + " out"
}

// cost is that of a node in short: more than a sum if some requests have no price.
func cost(u agent.Usage) string {
	if u.Priced > 0 && u.Unpriced() > 0 {
		return "> " + u.Cost.Text()
	}
	return u.CostText()
}

var stateMarks = [...]mark{Queued: markTask, Thinking: markRunning, Answering: markRunning, Calling: markRunning, Waiting: markAsk,
	Done: markOK, Partial: markNotice, Failed: markFailed, Stopped: markFailed}
