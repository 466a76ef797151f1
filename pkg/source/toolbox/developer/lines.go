package developer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A span is one of the ranges of an argument: the lines from first to last, counted
// from 1. If last is first-1, it is the place before first.
type span struct {
	first, last int
	word        string // how the result names it
	operation   string
}

// spans reads the argument ranges. An empty one is the whole file.
func spans(ranges string, total int) ([]span, error) {
	if strings.TrimSpace(ranges) == "" {
		ranges = "whole"
	}
	var list []span
	for word := range strings.SplitSeq(ranges, ",") {
		s, err := parseSpan(strings.TrimSpace(word), total)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	special := slices.ContainsFunc(list, func(s span) bool { return slices.Contains([]string{"head", "tail", "whole"}, s.word) })
	if special && len(list) > 1 {
		return nil, fmt.Errorf("head, tail and whole cannot be combined with other ranges")
	}
	return list, nil
}

func parseSpan(word string, total int) (span, error) {
	switch word {
	case "whole":
		return span{1, total, word, "overwrite"}, nil
	case "head":
		return span{1, 0, word, "prepend"}, nil
	case "tail":
		return span{total + 1, total, word, "append"}, nil
	}
	lines, after := strings.CutSuffix(word, "+")
	from, to, two := strings.Cut(lines, "-")
	if !two {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 31)
	last, err2 := strconv.ParseUint(to, 10, 31)
	if err1 != nil || err2 != nil || first < 1 || last < first {
		return span{}, fmt.Errorf("%q is not a range: N, N-M (N at most M), N+ (after line N), head, tail or whole, separated by commas", word)
	}
	if after {
		return span{int(last) + 1, int(last), strconv.Itoa(int(last)) + "+", "insert-after"}, nil
	}
	if first == last {
		word = from
	}
	return span{int(first), int(last), word, "replace"}, nil
}

// linesOf splits a text. The newline at its end begins no further line.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// A document is the lines of a file, without their ends, and how they end: an edit changes only the
// lines that it names.
type document struct {
	lines []string
	end   string // "\r\n" if all lines end so, else "\n"
	open  bool   // the last line has no end
}

func documentOf(content []byte) document {
	text := string(content)
	d := document{end: "\n", open: text != "" && !strings.HasSuffix(text, "\n")}
	if n := strings.Count(text, "\n"); n > 0 && n == strings.Count(text, "\r\n") {
		d.end, text = "\r\n", strings.ReplaceAll(text, "\r\n", "\n")
	}
	d.lines = linesOf(text)
	return d
}

// with returns the content of the file with other lines.
func (d document) with(lines []string) []byte {
	if len(lines) == 0 {
		return []byte{}
	}
	text := strings.Join(lines, d.end)
	if !d.open {
		text += d.end
	}
	return []byte(text)
}

type reading struct {
	Path     string   `json:"path"`
	Content  string   `json:"content"` // each line as NUMBER, tab, text
	Read     int      `json:"linesRead"`
	Size     int      `json:"totalFileSize"` // bytes
	Total    int      `json:"totalLineCount"`
	Ranges   []string `json:"rangesParsed"`
	Snapshot string   `json:"snapshotRef"`
	Session  *string  `json:"sessionId"`
	Metadata bool     `json:"metadataOnly"`
}

func (b *box) read(a *arguments) (any, error) {
	r := &reading{Path: a.Path, Metadata: a.MetadataOnly}
	var content []byte
	if a.Session != "" {
		s, err := b.session(a.Session, a.Path)
		if err != nil {
			return nil, err
		}
		lines, _, _ := apply(s.base.lines, s.edits)
		r.Path, r.Session, content = s.path, &a.Session, s.base.with(lines)
	} else {
		var err error
		if content, err = b.files.Read(a.Path); err != nil {
			return nil, err
		}
	}
	lines := documentOf(content).lines
	list, err := spans(a.Ranges, len(lines))
	if err != nil {
		return nil, err
	}
	r.Size, r.Total, r.Snapshot = len(content), len(lines), b.keep(content)
	var text strings.Builder
	for _, s := range list {
		r.Ranges = append(r.Ranges, s.word)
		for n := s.first; n <= min(s.last, len(lines)) && !a.MetadataOnly; n++ {
			fmt.Fprintf(&text, "%d\t%s\n", n, lines[n-1])
			r.Read++
		}
	}
	r.Content = text.String()
	return r, nil
}

// An edit replaces a span of the original file.
type edit struct {
	span
	lines []string
}

// edits pairs the ranges of a call with its blocks.
func (a *arguments) edits(total int) ([]edit, error) {
	if strings.TrimSpace(a.Ranges) == "" { // whole must be meant: it loses what the file has
		return nil, fmt.Errorf("the argument ranges is missing: set it to whole to overwrite the whole file")
	}
	list, err := spans(a.Ranges, total)
	if err != nil {
		return nil, err
	}
	blocks := a.Blocks
	switch {
	case blocks == nil && a.Content != nil && len(list) > 1:
		blocks = strings.Split(*a.Content, "\n---\n")
	case blocks == nil && a.Content != nil:
		blocks = []string{*a.Content}
	case blocks == nil:
		return nil, fmt.Errorf("the argument contentBlocks is missing; an empty block deletes the lines of its range")
	}
	if len(blocks) != len(list) {
		return nil, fmt.Errorf("there are %d ranges and %d contentBlocks; each range has one block", len(list), len(blocks))
	}
	var edits []edit
	for i, s := range list {
		e := edit{s, linesOf(strings.ReplaceAll(blocks[i], "\r\n", "\n"))}
		if e.operation == "replace" && len(e.lines) == 0 {
			e.operation = "delete"
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// An edited says where an edit is in the new file.
type edited struct {
	Range     string `json:"range"`
	Original  string `json:"originalLines"`
	Written   int    `json:"linesWritten"`
	First     *int   `json:"finalStartLine"`
	Last      *int   `json:"finalEndLine"`
	Operation string `json:"operation"`
}

// apply makes the edits, whose spans are all lines of the original file. The results
// are in the order of the lines.
func apply(original []string, edits []edit) (lines []string, results []edited, err error) {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(x, y edit) int { return cmp.Compare(x.first, y.first) })
	next := 1 // the first line of the original that is not copied yet
	for _, e := range edits {
		last := e.last
		switch {
		case e.first > len(original)+1:
			return nil, nil, fmt.Errorf("the range %s is outside of the file, which has %d lines", e.word, len(original))
		case e.operation == "replace" || e.operation == "delete":
			if e.first > len(original) {
				return nil, nil, fmt.Errorf("the range %s is outside of the file, which has %d lines", e.word, len(original))
			}
			last = min(last, len(original))
		}
		if e.first < next {
			return nil, nil, fmt.Errorf("the range %s overlaps another one", e.word)
		}
		lines = append(append(lines, original[next-1:e.first-1]...), e.lines...)
		r := edited{Range: e.word, Original: fmt.Sprintf("%d-%d", min(e.first, e.last), e.last), Written: len(e.lines), Operation: e.operation}
		if n := len(lines); len(e.lines) > 0 {
			first := n - len(e.lines) + 1
			r.First, r.Last = &first, &n
		}
		results = append(results, r)
		next = max(next, last+1)
	}
	return append(lines, original[next-1:]...), results, nil
}

type written struct {
	Path      string   `json:"path"`
	Ranges    int      `json:"rangesModified"`
	Lines     int      `json:"linesWritten"`
	Total     int      `json:"finalLineCount"`
	Results   []edited `json:"rangeResults"`
	Before    *string  `json:"beforeSnapshotRef"`
	After     *string  `json:"afterSnapshotRef"`
	Session   *string  `json:"sessionId"`
	Delta     *int     `json:"sessionNetDelta"`
	Committed bool     `json:"sessionCommitted"`
	Status    string   `json:"sessionStatus"` // "staged" until the file has the edits
}

func (b *box) write(a *arguments) (any, error) {
	content, err := b.current(a.Path, a.Expected)
	if err != nil {
		return nil, err
	}
	original := documentOf(content)
	edits, err := a.edits(len(original.lines))
	if err != nil {
		return nil, err
	}
	if op := edits[0].operation; content == nil && (op == "replace" || op == "delete") {
		return nil, fmt.Errorf("%s does not exist; the range head creates it", a.Path)
	}
	lines, results, err := apply(original.lines, edits)
	if err != nil {
		return nil, err
	}
	changed := original.with(lines)
	if err := b.files.Write(a.Path, changed); err != nil {
		return nil, err
	}
	w := report(a.Path, edits, lines, results)
	w.Status, w.Committed = "committed", true
	if content != nil {
		before := b.keep(content)
		w.Before = &before
	}
	after := b.keep(changed)
	w.After = &after
	return w, nil
}

func report(path string, edits []edit, lines []string, results []edited) *written {
	w := &written{Path: path, Ranges: len(edits), Total: len(lines), Results: results}
	for _, e := range edits {
		w.Lines += len(e.lines)
	}
	return w
}

// A session collects edits of a file over several calls. Their ranges are lines of
// the file as it was at the beginning.
type session struct {
	path     string
	noLinks  bool   // see Files; a later call need not have the path
	expected string // snapshot
	base     document
	edits    []edit
}

// session returns the session of a call. A path in the call must be that of the session: rules
// have judged it.
func (b *box) session(id, path string) (*session, error) {
	if s := b.sessions[id]; s != nil {
		here, err := b.files.resolve(cmp.Or(path, s.path))
		there, fail := b.files.resolve(s.path)
		if err := cmp.Or(err, fail); err != nil {
			return nil, err
		}
		if here != there {
			return nil, fmt.Errorf("the edit session %s is one of %s, not of %s", id, s.path, path)
		}
		return s, nil
	}
	if slices.Contains(b.committed, id) {
		return nil, fmt.Errorf("the edit session %s has been committed already", id)
	}
	return nil, fmt.Errorf("there is no edit session %q", id)
}

// edit adds edits to a session, begins it where there is none, and commits it if the
// call says so.
func (b *box) edit(a *arguments) (any, error) {
	id := a.Session
	if id == "" {
		if a.Expected == "" {
			return nil, fmt.Errorf("an edit session begins with the argument expected_snapshot_ref")
		}
		content, err := b.current(a.Path, a.Expected)
		if err != nil {
			return nil, err
		}
		b.started++
		id = fmt.Sprintf("edit-%d", b.started)
		b.sessions[id] = &session{path: a.Path, noLinks: b.files.noLinks, expected: a.Expected, base: documentOf(content)}
	}
	s, err := b.session(id, a.Path)
	if err != nil {
		return nil, err
	}
	var added []edit
	if strings.TrimSpace(a.Ranges) != "" { // else there is nothing to add
		if added, err = a.edits(len(s.base.lines)); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(added, func(e edit) bool { return e.word == "whole" }) {
		return nil, fmt.Errorf("the range whole is not possible in an edit session")
	}
	all := slices.Concat(s.edits, added)
	lines, results, err := apply(s.base.lines, all)
	if err != nil {
		return nil, err
	}
	w := report(s.path, added, lines, results)
	delta := len(lines) - len(s.base.lines)
	w.Session, w.Delta, w.Status = &id, &delta, "staged"
	if a.Commit != nil && *a.Commit {
		b.files.noLinks = b.files.noLinks || s.noLinks
		if _, err := b.current(s.path, s.expected); err != nil {
			return nil, err
		}
		changed := s.base.with(lines)
		if err := b.files.Write(s.path, changed); err != nil {
			return nil, err
		}
		after := b.keep(changed)
		w.Before, w.After, w.Status, w.Committed = &s.expected, &after, "committed", true
		delete(b.sessions, id)
		b.committed = append(b.committed, id)
		return w, nil
	}
	s.edits = all
	return w, nil
}
