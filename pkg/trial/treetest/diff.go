package treetest

import (
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/trial/standin"
)

// maxColumn is how many bytes of a line are shown.
const maxColumn = 400

func lineDiff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	return render(standin.Align(a, b), func(e standin.Edit) string {
		if e.Op == '+' {
			return b[e.Got]
		}
		return a[e.Want]
	})
}

// render writes a difference with a few equal lines around each change.
func render(edits []standin.Edit, text func(standin.Edit) string) string {
	near := standin.NearEdits(edits)
	var lines []string
	for i, e := range edits {
		switch {
		case near[i]:
			lines = append(lines, prefixed(e.Op, text(e))...)
		case i == 0 || near[i-1]:
			lines = append(lines, "  …")
		}
	}
	return standin.Join(lines, "  ")
}

// showText is a text as part of a failure.
func showText(text string) string {
	if text == "" {
		return "+ (nothing)"
	}
	return standin.Join(prefixed('+', text), "  ")
}

// prefixed is the lines of a text, cut to maxColumn, each after op.
func prefixed(op byte, text string) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if n := len(line); n > maxColumn {
			line = strings.ToValidUTF8(line[:maxColumn], "") + fmt.Sprintf("… (%d bytes)", n)
		}
		lines = append(lines, string(op)+" "+line)
	}
	return lines
}
