// Package spool keeps what a program prints, for a model: all of it while it is short,
// else its head and tail, with the whole in a file.
//
//	out := spool.Output{Dir: dir, Pattern: "call-*.stdout"}
//	defer out.Close()
//	_, err := io.Copy(&out, stdout)
//	text := out.Text(spool.MaxText, "stdout")
package spool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	// MaxText is how many bytes of an output are kept in memory, and the most that
	// Text returns.
	MaxText = 50_000
	// MaxFile is how many bytes of it are kept in a file.
	MaxFile = 1 << 30
)

// An Output takes in one stream of a program while it is printed. In memory it
// holds at most the first MaxText bytes and the last MaxText/2; as soon as
// there is more than MaxText, all of it goes to a file. Write never fails,
// since a program must not die of a full disk here. Its methods must not be called
// concurrently.
type Output struct {
	Dir        string // of the file, created if need be; empty: that of the system
	Pattern    string // of the file's name, see os.CreateTemp
	MemoryOnly bool   // no file
	MaxFile    int64  // 0: the constant

	referenced bool // a text names the file

	total    int64
	head     []byte
	tail     []byte // a ring once it is full
	next     int    // where the next byte goes
	file     *os.File
	fileSize int64
	fileErr  error // why the file is not whole
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, all := len(p), p
	o.total += int64(n)
	if room := MaxText - len(o.head); room > 0 {
		k := min(room, len(p))
		o.head = append(o.head, p[:k]...)
		p = p[k:]
	}
	switch {
	case o.file != nil:
		o.spill(all)
	case len(p) > 0 && !o.MemoryOnly:
		o.spill(p)
	}
	if len(p) > 0 {
		o.keep(p)
	}
	return n, nil
}

// keep puts p into the ring.
func (o *Output) keep(p []byte) {
	const size = MaxText / 2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := size - len(o.tail); room > 0 {
		k := min(room, len(p))
		o.tail = append(o.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(o.tail[o.next:], p)
		o.next = (o.next + k) % size
		p = p[k:]
	}
}

// spill writes p, which follows everything before it, to the file. It opens the
// file if there is none yet.
func (o *Output) spill(p []byte) {
	if o.file == nil && o.fileErr == nil {
		o.open()
	}
	if o.fileErr != nil {
		return
	}
	limit := cmp.Or(o.MaxFile, MaxFile)
	if room := limit - o.fileSize; int64(len(p)) > room {
		p, o.fileErr = p[:max(room, 0)], fmt.Errorf("a file can have %d", limit)
	}
	k, err := o.file.Write(p)
	o.fileSize += int64(k)
	if err != nil {
		o.fileErr = plainPathError(err)
	}
}

// open creates the file and writes what is in memory.
func (o *Output) open() {
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			o.fileErr = err
			return
		}
	}
	f, err := os.CreateTemp(o.Dir, o.Pattern) // 0600
	if err != nil {
		o.fileErr = err
		return
	}
	o.file = f
	k, err := f.Write(o.head)
	o.fileSize = int64(k)
	if err != nil {
		o.fileErr = plainPathError(err)
	}
}

// plainPathError leaves out the path, which the notice names anyway.
func plainPathError(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// Close closes the file, if there is one, and removes it unless a result
// names it.
func (o *Output) Close() {
	if o.file == nil {
		return
	}
	o.file.Close() // a failed write is known already; nothing is synced
	if !o.referenced {
		os.Remove(o.file.Name())
	}
}

// Whole reports whether all of the stream is in memory.
func (o *Output) Whole() bool { return o.total == int64(len(o.head)) }

// Save makes sure that there is a file, for a stream that fits into memory but
// not into what the model gets.
func (o *Output) Save() {
	if o.file == nil && o.fileErr == nil {
		o.open()
	}
}

// last returns the last n bytes of the stream, or as many as there are. n is at
// most MaxText/2.
func (o *Output) last(n int) []byte {
	ring := make([]byte, 0, MaxText/2)
	ring = append(append(ring, o.tail[o.next:]...), o.tail[:o.next]...)
	if len(ring) >= n {
		return ring[len(ring)-n:]
	}
	before := min(n-len(ring), len(o.head))
	return append(append([]byte{}, o.head[len(o.head)-before:]...), ring...)
}

// IsBinary reports whether the stream is data rather than text with a few odd
// bytes: it is not valid UTF-8, and more than one byte in twenty is wrong, or
// one is NUL.
func (o *Output) IsBinary() bool {
	bad, nul, size := 0, false, len(o.head)+len(o.tail)
	for _, part := range [][]byte{o.head, o.last(len(o.tail))} {
		for len(part) > 0 {
			r, n := utf8.DecodeRune(part)
			if r == utf8.RuneError && n == 1 {
				bad++
			}
			nul = nul || r == 0
			part = part[n:]
		}
	}
	// A character that the cut between head and tail splits is not wrong.
	if !o.Whole() {
		bad = max(0, bad-6)
	}
	return bad > 0 && (nul || bad*20 > size)
}

// Render is the stream as text of at most limit bytes: all of it, or its head
// and tail with a notice between them. Bytes that are not UTF-8 become U+FFFD.
func (o *Output) Render(limit int, name string) string {
	if o.Need() <= limit {
		return validText(o.head)
	}
	o.Save()
	half := max(0, limit-len(o.notice(name, o.total))) / 2
	head := cutTail(validText(trimPartial(o.head[:min(half, len(o.head))])), half)
	tail := cutHead(validText(trimLead(o.last(half))), half)
	return head + o.notice(name, o.total-int64(len(head)+len(tail))) + tail
}

// Need is the length of the text if nothing is cut out, or more than MaxText
// if something must be.
func (o *Output) Need() int {
	if !o.Whole() {
		return MaxText + 1
	}
	return len(validText(o.head))
}

// validText is p with U+FFFD in place of what is not UTF-8.
func validText(p []byte) string { return strings.ToValidUTF8(string(p), "\uFFFD") }

// notice stands where something was cut out.
func (o *Output) notice(name string, cut int64) string {
	return fmt.Sprintf("\n\n[%d of %d bytes of %s are left out here; %s]\n\n", cut, o.total, name, o.where())
}

// where says where the whole stream is, which is then kept.
func (o *Output) where() string {
	o.referenced = true
	switch {
	case o.file == nil:
		return fmt.Sprintf("the whole could not be kept in a file: %v", o.fileErr)
	case o.fileErr != nil:
		return fmt.Sprintf("the first %d bytes are in the file %s: %v", o.fileSize, o.file.Name(), o.fileErr)
	default:
		return "the whole is in the file " + o.file.Name()
	}
}

// trimPartial removes the beginning of a character from the end of p.
func trimPartial(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// trimLead removes the end of a character from the beginning of p.
func trimLead(p []byte) []byte {
	for i := range min(utf8.UTFMax, len(p)) {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p
}

// cutTail and cutHead shorten valid UTF-8 to n bytes at a character's border.
func cutTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return string(trimPartial([]byte(s[:n])))
}

func cutHead(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return string(trimLead([]byte(s[len(s)-n:])))
}

// Text is the stream as text, whatever it is: as Render, or a line that says that it is
// data and where it is.
func (o *Output) Text(limit int, name string) string {
	if o.IsBinary() {
		o.Save()
		return fmt.Sprintf("[%d bytes that are not text (not UTF-8)%s]", o.total, o.Reference())
	}
	return o.Render(limit, name)
}

// Reference says where the whole stream is, if it is in a file.
func (o *Output) Reference() string {
	if o.file == nil {
		return ""
	}
	return "; " + o.where()
}

// File is the file that has all of the stream, and what follows; it is created if there is
// none, and Close does not remove it.
func (o *Output) File() (string, error) {
	o.Save()
	if o.file == nil {
		return "", o.fileErr
	}
	o.referenced = true
	return o.file.Name(), o.fileErr
}

// Total is how many bytes were written.
func (o *Output) Total() int64 { return o.total }

// Head is the beginning of the stream, all of it if Whole.
func (o *Output) Head() []byte { return o.head }

// Tail is the end of the stream as text, at most n bytes and MaxText/2 of it.
func (o *Output) Tail(n int) string { return validText(trimLead(o.last(n))) }

// Excerpt is what is in memory: the stream, or its beginning and its end.
func (o *Output) Excerpt() string {
	if o.Whole() {
		return string(o.head)
	}
	return string(o.head) + "\n" + string(o.last(len(o.tail)))
}

// Read returns all of the stream.
func (o *Output) Read() ([]byte, error) {
	if o.Whole() {
		return o.head, nil
	}
	if o.fileErr != nil {
		return nil, o.fileErr
	}
	return os.ReadFile(o.file.Name())
}
