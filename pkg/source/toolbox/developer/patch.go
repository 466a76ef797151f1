package developer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A patched is the result of patch-file.
type patched struct {
	Path     string `json:"path"`
	Applied  int    `json:"hunksApplied"`
	Rejected int    `json:"hunksRejected"`
	Lines    int    `json:"linesChanged"`
	Before   string `json:"beforeSnapshotRef"`
	After    string `json:"afterSnapshotRef"`
}

// patch applies a unified diff to a file: all of its hunks, each at the line that it
// names and with exactly the lines that it expects there, or none.
func (b *box) patch(a *arguments) (any, error) {
	content, err := b.existing(a)
	if err != nil {
		return nil, err
	}
	d := documentOf(content)
	edits, changed, err := hunks(a.Patch, &d)
	if err != nil {
		return nil, err
	}
	lines, _, err := apply(d.lines, edits)
	if err != nil {
		return nil, err
	}
	after := d.with(lines)
	if err := b.files.Write(a.Path, after); err != nil {
		return nil, err
	}
	return &patched{Path: a.Path, Applied: len(edits), Lines: changed, Before: b.keep(content), After: b.keep(after)}, nil
}

// hunkHeader fits the first line of a hunk.
var hunkHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@`) })

// hunks reads a unified diff for a file, and changes d.open if the diff says so. Counts in
// the headers of hunks are not trusted: models miscount.
func hunks(diff string, d *document) (edits []edit, changed int, err error) {
	rest := linesOf(strings.ReplaceAll(diff, "\r\n", "\n"))
	for len(rest) > 0 {
		header := hunkHeader().FindStringSubmatch(rest[0])
		if header == nil {
			rest = rest[1:] // the names of the files, or text around the diff
			continue
		}
		end := slices.IndexFunc(rest[1:], func(l string) bool { return hunkHeader().MatchString(l) || strings.HasPrefix(l, "diff --git ") })
		body := rest[1:]
		if end >= 0 {
			body = rest[1 : end+1]
		}
		rest = rest[1+len(body):]
		e, n, err := hunk(header, body, d)
		if err != nil {
			return nil, 0, err
		}
		edits, changed = append(edits, e), changed+n
	}
	if len(edits) == 0 {
		return nil, 0, fmt.Errorf("the patch has no hunk: a line such as @@ -10,3 +10,4 @@, followed by lines that begin with a space, - or +")
	}
	return edits, changed, nil
}

// hunk compares a hunk with the file.
func hunk(header, body []string, d *document) (e edit, changed int, err error) {
	lines := d.lines
	first, err := strconv.Atoi(header[1])
	if err != nil {
		return e, 0, err
	}
	if header[2] == "0" { // it follows the line
		first++
	}
	var old []string
	var before, after, marked bool // a marker: the last line has no newline
	for i, line := range body {
		switch {
		case line == "": // a space at the end of a line is easily lost
			old, e.lines = append(old, ""), append(e.lines, "")
		case line[0] == ' ':
			old, e.lines = append(old, line[1:]), append(e.lines, line[1:])
		case line[0] == '-':
			old, changed = append(old, line[1:]), changed+1
		case line[0] == '+':
			e.lines, changed = append(e.lines, line[1:]), changed+1
		case line[0] == '\\' && i > 0: // no newline at end of file
			last := body[i-1] + " "
			before, after, marked = before || last[0] != '+', after || last[0] != '-', true
		case line[0] == '\\':
		default:
			return e, 0, fmt.Errorf("a line of hunk %s does not begin with a space, - or +: %s", header[0], line)
		}
	}
	// Empty lines at the end of a patch are not part of it.
	for len(body) > 0 && body[len(body)-1] == "" && (first+len(old)-2 >= len(lines) || lines[first+len(old)-2] != "") {
		body, old, e.lines = body[:len(body)-1], old[:len(old)-1], e.lines[:len(e.lines)-1]
	}
	for i, want := range old {
		n := first + i
		if n < 1 || n > len(lines) {
			return e, 0, fmt.Errorf("hunk %s expects line %d, and the file has %d lines; nothing was changed", header[0], n, len(lines))
		}
		if lines[n-1] != want {
			return e, 0, fmt.Errorf("hunk %s expects line %d to be %q, and it is %q; nothing was changed", header[0], n, want, lines[n-1])
		}
	}
	e.span = span{first, first + len(old) - 1, header[0], "patch"}
	if marked && e.last == len(lines) {
		if before && !d.open {
			return e, 0, fmt.Errorf("hunk %s expects no newline at the end of the file, and there is one; nothing was changed", header[0])
		}
		d.open = after
	}
	return e, changed, nil
}
