// Package redact replaces secrets in texts with [Mark].
//
//   - A [Redactor] holds the secrets; [Redactor.String] redacts a whole text.
//   - A [Stream] redacts a text that arrives in chunks, [Redactor.Writer] what is
//     written to an io.Writer.
//
// A secret is found in plain text and with any of its characters escaped as in JSON, URLs or
// C, also if such texts are nested, up to three deep. A text truncated
// by another program can contain only its beginning or its end, which is found too if
// it is long enough to be useful to an attacker.
//
//	r := redact.New([]string{key})
//	fmt.Println(r.String(text))
package redact

import (
	"io"
	"slices"
	"strings"
)

// Mark replaces a secret.
const Mark = "[secret]"

const (
	// MinSecret is the length from which a value counts as a secret: a shorter
	// one would match ordinary words.
	MinSecret = 8
	// minPart is the length from which the beginning or end of a secret is
	// redacted. It must also be more than half of the secret, except where the text was cut.
	minPart = 12
)

// A Redactor replaces secrets. It is immutable and safe for concurrent use. A nil
// Redactor changes nothing.
type Redactor struct {
	forms []form
}

// A form is a secret, as it is or as the query of a URL spells it.
type form struct {
	text string
	part int // the length from which its beginning or end is redacted
}

// New returns a Redactor of the secrets, without the white space around them.
// Secrets shorter than MinSecret are ignored; if none is left, New returns nil.
func New(secrets []string) *Redactor {
	var texts []string
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= MinSecret {
			texts = append(texts, s, strings.ReplaceAll(s, " ", "+")) // the spelling in the query of a URL
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	r := &Redactor{}
	for _, s := range slices.Compact(texts) {
		r.forms = append(r.forms, form{s, min(len(s), max(minPart, len(s)/2+1))})
	}
	return r
}

// String returns s with Mark in place of every secret.
func (r *Redactor) String(s string) string {
	found := r.find(s)
	if len(found) == 0 {
		return s
	}
	var b strings.Builder
	end := 0
	for _, f := range found {
		b.WriteString(s[end:f.start])
		b.WriteString(Mark)
		end = f.end
	}
	b.WriteString(s[end:])
	return b.String()
}

// Bytes returns b with Mark in place of every secret: b itself if it holds none,
// otherwise a copy.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil || len(b) < MinSecret {
		return b
	}
	s := string(b)
	if clean := r.String(s); clean != s {
		return []byte(clean)
	}
	return b
}

// A span is a place in a text.
type span struct{ start, end int }

// find returns the spans of secrets and parts of secrets in s, in order. Overlapping
// spans are joined.
func (r *Redactor) find(s string) []span {
	if r == nil || len(s) < MinSecret {
		return nil
	}
	var found []span
	for _, f := range r.forms {
		found = f.find(s, found)
	}
	found = append(append(found, r.findEncoded(s)...), r.cut(s)...)
	if len(found) < 2 {
		return found
	}
	slices.SortStableFunc(found, func(a, b span) int { return a.start - b.start })
	joined := found[:1]
	for _, f := range found[1:] {
		if last := &joined[len(joined)-1]; f.start < last.end {
			last.end = max(last.end, f.end)
		} else {
			joined = append(joined, f)
		}
	}
	return joined
}

// cut returns the spans where s ends with the beginning of a secret or begins with the end of
// one. The text was probably truncated there, so minPart characters are enough.
func (r *Redactor) cut(s string) (found []span) {
	const marks = "… .\n"
	end, start := strings.TrimRight(s, marks), len(s)-len(strings.TrimLeft(s, marks))
	for _, f := range r.forms {
		for n := min(f.part-1, len(end)); n >= minPart; n-- {
			if strings.HasSuffix(end, f.text[:n]) {
				found = append(found, span{len(end) - n, len(end)})
				break
			}
		}
		for n := min(f.part-1, len(s)-start); n >= minPart; n-- {
			if strings.HasPrefix(s[start:], f.text[len(f.text)-n:]) {
				found = append(found, span{start, start + n})
				break
			}
		}
	}
	return found
}

// find appends the spans of f, its beginning and its end in s.
func (f form) find(s string, found []span) []span {
	first, last := f.text[:f.part], f.text[len(f.text)-f.part:]
	for at := 0; ; {
		i := strings.Index(s[at:], first)
		if i < 0 {
			break
		}
		at += i
		n := f.part
		for n < len(f.text) && at+n < len(s) && s[at+n] == f.text[n] {
			n++
		}
		found = append(found, span{at, at + n})
		at++
	}
	if f.part == len(f.text) {
		return found
	}
	for at := 0; ; {
		i := strings.Index(s[at:], last)
		if i < 0 {
			return found
		}
		at += i
		n := f.part
		for n < len(f.text) && at+f.part > n && s[at+f.part-n-1] == f.text[len(f.text)-n-1] {
			n++
		}
		found = append(found, span{at + f.part - n, at + f.part})
		at++
	}
}

// A Stream redacts a text that arrives in chunks, even if a secret is split between
// chunks. The end of a secret without its beginning is found only within one
// chunk. It is not safe for concurrent use.
type Stream struct {
	r    *Redactor
	held string // the end of the text so far, if a secret may begin there
}

// Stream returns a Stream for a new text.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Next adds a chunk and returns the text that can be passed on. It holds back the
// possible beginning of a secret at the end.
func (s *Stream) Next(chunk string) string {
	if s.r == nil {
		return chunk
	}
	text := s.held + chunk
	certain := len(text) - s.r.pending(text)
	found := s.r.find(text)
	for _, f := range found {
		if f.start < certain && certain < f.end {
			certain = f.start
		}
	}
	s.held = strings.Clone(text[certain:])
	if len(found) == 0 {
		return text[:certain]
	}
	return s.r.String(text[:certain])
}

// Rest ends the text and returns what Next held back.
func (s *Stream) Rest() string {
	rest := s.r.String(s.held)
	s.held = ""
	return rest
}

// pending returns the length of the longest suffix of s that is the beginning of a
// secret.
func (r *Redactor) pending(s string) int {
	return max(r.pendingPlain(s), r.pendingEncoded(s, maxRounds))
}

func (r *Redactor) pendingPlain(s string) int {
	longest := 0
	for _, f := range r.forms {
		for n := min(len(f.text)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, f.text[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// Writer returns a writer that passes redacted text on to w. Close writes what is
// held back and does not close w. Errors of w are returned by Write and Close.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	return &writer{stream: r.Stream(), w: w}
}

type writer struct {
	stream *Stream
	w      io.Writer
}

func (w *writer) Write(p []byte) (int, error) {
	if w.stream.r == nil {
		return w.w.Write(p)
	}
	if err := w.pass(w.stream.Next(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error { return w.pass(w.stream.Rest()) }

func (w *writer) pass(s string) error {
	if s == "" {
		return nil
	}
	_, err := io.WriteString(w.w, s)
	return err
}
