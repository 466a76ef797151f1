package treetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/trial/standin"
)

// A Report is the result of one test.
type Report struct {
	// File is the path of the test file.
	File string
	// Failures are the reasons why the test failed; it passed if there are none.
	Failures []Failure
	// Skipped is why nothing was tested, "" if something was.
	Skipped string
	// Duration is the real time that the test took.
	Duration time.Duration
}

// OK reports whether the test passed.
func (r Report) OK() bool { return len(r.Failures) == 0 }

// String is every failure with its difference.
func (r Report) String() string {
	if r.OK() {
		return r.File + ": passed"
	}
	var lines []string
	for _, f := range r.Failures {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// A Failure is one reason why a test failed.
type Failure struct {
	// File is the file with the mistake: the test file, an agent file or a script.
	File string `json:"file"`
	// Line and Col count from 1; 0 means the file as a whole.
	Line int `json:"line,omitempty"`
	Col  int `json:"col,omitempty"`
	// Key names the value as expect.calls[1].args.
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	// Diff shows the expected lines ("-") and the actual ones ("+"), or the actual
	// ones alone.
	Diff string `json:"diff,omitempty"`
}

// String is "FILE:LINE: KEY: MESSAGE" and the difference below it.
func (f Failure) String() string {
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Key != "" {
		place += ": " + f.Key
	}
	s := place + ": " + f.Message
	if f.Diff != "" {
		s += "\n    " + strings.ReplaceAll(f.Diff, "\n", "\n    ")
	}
	return s
}

// sorted sorts failures by their place.
func sorted(list []Failure) []Failure {
	slices.SortStableFunc(list, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// JUnit is the XML that CI systems read: a test suite with a test case for each
// report.
func JUnit(reports []Report) string {
	failed, skipped := 0, 0
	var total time.Duration
	for _, r := range reports {
		total += r.Duration
		if r.Skipped != "" {
			skipped++
		}
		if !r.OK() {
			failed++
		}
	}
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n")
	fmt.Fprintf(&b, "  <testsuite name=\"agents test\" tests=\"%d\" failures=\"%d\" skipped=\"%d\" time=\"%.3f\">\n", len(reports), failed, skipped, total.Seconds())
	for _, r := range reports {
		fmt.Fprintf(&b, "    <testcase classname=\"agents test\" name=\"%s\" file=\"%s\" time=\"%.3f\"", escapeXML(r.File), escapeXML(r.File), r.Duration.Seconds())
		if r.Skipped != "" {
			fmt.Fprintf(&b, "><skipped message=\"%s\"/></testcase>\n", escapeXML(r.Skipped))
			continue
		}
		if r.OK() {
			b.WriteString("/>\n")
			continue
		}
		first := r.Failures[0]
		message := first.Message
		if first.Key != "" {
			message = first.Key + ": " + message
		}
		fmt.Fprintf(&b, ">\n      <failure message=\"%s\">%s</failure>\n    </testcase>\n", escapeXML(message), escapeXML(r.String()))
	}
	b.WriteString("  </testsuite>\n</testsuites>\n")
	return b.String()
}

// escapeXML escapes a text for an attribute or an element. Characters that XML does
// not allow are removed.
func escapeXML(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", "&#10;").Replace(s)
}

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
