package standin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/aymanbagabas/go-udiff/lcs"
)

// A Tool answers calls in place of the embedded tool, which provides the description
// for the model and, if it is an agent.Validator, checks arguments.
type Tool struct {
	agent.Tool
	// Answer answers a call.
	Answer func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
	// Executes is the Command of a call; nil means that it executes nothing.
	Executes func(inv *agent.Invocation) (argv []string, digest string)
}

// Call implements agent.Tool.
func (t *Tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.Answer(ctx, inv)
}

// Command implements agent.Commander. It hides that of the embedded tool.
func (t *Tool) Command(inv *agent.Invocation) (argv []string, digest string) {
	if t.Executes == nil {
		return nil, ""
	}
	return t.Executes(inv)
}

// Unwrap returns the embedded tool; see agent.As.
func (t *Tool) Unwrap() any { return t.Tool }

// failed begins the result of a call that failed.
const failed = "error: "

// Result is what a tool returned, so that a runner.Gate makes r of it again: the
// first part of a failed result is the error, on a line of its own if others
// follow.
func Result(r *agent.ToolResult) (agent.Result, error) {
	parts := agent.WithoutReceipts(r.Parts)
	if !r.Failed || len(parts) == 0 {
		return agent.Result{Parts: parts, End: r.End, Task: r.Task, Toolgroups: r.Toolgroups, Handle: r.Handle}, nil
	}
	text := strings.TrimPrefix(parts[0].Text, failed)
	rest := parts[1:]
	if len(rest) > 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return agent.Result{Parts: rest}, errors.New(text)
}

// Limits of a difference: a person reads it.
const (
	MaxDiffLines = 60
	around       = 3      // equal lines around a difference
	maxCompared  = 50_000 // lines of each side
)

// An Edit is a line of a difference: '-' is only in the first list, '+' only in
// the second, ' ' in both.
type Edit struct {
	Op   byte
	Want int // index in the first list; -1 for '+'
	Got  int // index in the second list; -1 for '-'
}

// Align finds what two lists of lines have in common.
func Align(want, got []string) []Edit {
	var edits []Edit
	i, j := 0, 0
	equal := func(until int) {
		for ; i < until; i, j = i+1, j+1 {
			edits = append(edits, Edit{' ', i, j})
		}
	}
	for _, c := range lcs.DiffLines(want, got) {
		for equal(c.Start); i < c.End; i++ {
			edits = append(edits, Edit{'-', i, -1})
		}
		for ; j < c.ReplEnd; j++ {
			edits = append(edits, Edit{'+', -1, j})
		}
	}
	equal(len(want))
	return edits
}

// Diff shows the differences between two lists of lines, each with a few equal
// lines around it, below a line that says where it is. It is empty if there are
// none.
func Diff(want, got []string) string {
	want, got = want[:min(len(want), maxCompared)], got[:min(len(got), maxCompared)]
	edits := Align(want, got)
	near := NearEdits(edits)
	var lines []string
	line := 1 // of want
	for i, e := range edits {
		if near[i] && (i == 0 || !near[i-1]) {
			lines = append(lines, fmt.Sprintf("@@ line %d @@", line))
		}
		if e.Op != '+' {
			line++
		}
		switch {
		case near[i] && e.Op == '+':
			lines = append(lines, "+"+got[e.Got])
		case near[i]:
			lines = append(lines, string(e.Op)+want[e.Want])
		}
	}
	return Join(lines, "")
}

// NearEdits says of each edit whether it is shown: it is a difference or near one.
func NearEdits(edits []Edit) []bool {
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.Op != ' ' {
			for k := max(0, i-around); k <= min(len(edits)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	return near
}

// Join joins the first MaxDiffLines lines, and says after indent how many more
// there are.
func Join(lines []string, indent string) string {
	if more := len(lines) - MaxDiffLines; more > 0 {
		lines = append(slices.Clip(lines[:MaxDiffLines]), fmt.Sprintf("%s… and %d more lines", indent, more))
	}
	return strings.Join(lines, "\n")
}
