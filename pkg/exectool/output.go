package exectool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// Limits of what a tool prints.
const (
	// MaxOutput is how many bytes of a call's output reach the model.
	MaxOutput = 50_000
	// MaxSpool is how many bytes of a stream are kept in a file.
	MaxSpool = 1 << 30
	// MaxMedia is the size of the largest attachment.
	MaxMedia = 20_000_000
)

// An output takes in one stream of a tool while it is printed. In memory it
// holds at most the first MaxOutput bytes and the last MaxOutput/2; as soon as
// there is more than MaxOutput, all of it goes to a file. Write never fails,
// since a tool must not die of a full disk here.
type output struct {
	dir        string // of the file; empty: that of the system
	pattern    string // of the file's name, see os.CreateTemp
	memoryOnly bool   // no file
	maxFile    int64  // 0: MaxSpool
	referenced bool   // a result names the file

	total    int64
	head     []byte
	tail     []byte // a ring once it is full
	next     int    // where the next byte goes
	file     *os.File
	fileSize int64
	fileErr  error // why the file is not whole
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	o.total += int64(n)
	if room := MaxOutput - len(o.head); room > 0 {
		k := min(room, len(p))
		o.head = append(o.head, p[:k]...)
		p = p[k:]
	}
	if len(p) == 0 {
		return n, nil
	}
	if !o.memoryOnly {
		o.spill(p)
	}
	o.keep(p)
	return n, nil
}

// keep puts p into the ring.
func (o *output) keep(p []byte) {
	const size = MaxOutput / 2
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
func (o *output) spill(p []byte) {
	if o.file == nil && o.fileErr == nil {
		o.open()
	}
	if o.fileErr != nil {
		return
	}
	limit := cmp.Or(o.maxFile, MaxSpool)
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
func (o *output) open() {
	if o.dir != "" {
		if err := os.MkdirAll(o.dir, 0o700); err != nil {
			o.fileErr = err
			return
		}
	}
	f, err := os.CreateTemp(o.dir, o.pattern) // 0600
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
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// close closes the file, if there is one, and removes it unless a result
// names it.
func (o *output) close() {
	if o.file == nil {
		return
	}
	o.file.Close() // a failed write is known already; nothing is synced
	if !o.referenced {
		os.Remove(o.file.Name())
	}
}

// whole reports whether all of the stream is in memory.
func (o *output) whole() bool { return o.total == int64(len(o.head)) }

// save makes sure that there is a file, for a stream that fits into memory but
// not into what the model gets.
func (o *output) save() {
	if o.file == nil && o.fileErr == nil {
		o.open()
	}
}

// last returns the last n bytes of the stream, or as many as there are. n is at
// most MaxOutput/2.
func (o *output) last(n int) []byte {
	ring := make([]byte, 0, MaxOutput/2)
	ring = append(append(ring, o.tail[o.next:]...), o.tail[:o.next]...)
	if len(ring) >= n {
		return ring[len(ring)-n:]
	}
	before := min(n-len(ring), len(o.head))
	return append(append([]byte{}, o.head[len(o.head)-before:]...), ring...)
}

// isBinary reports whether the stream is data rather than text with a few odd
// bytes: it is not valid UTF-8, and more than one byte in twenty is wrong, or
// one is NUL.
func (o *output) isBinary() bool {
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
	if !o.whole() {
		bad = max(0, bad-6)
	}
	return bad > 0 && (nul || bad*20 > size)
}

// render is the stream as text of at most limit bytes: all of it, or its head
// and tail with a notice between them. Bytes that are not UTF-8 become U+FFFD.
func (o *output) render(limit int, name string) string {
	if o.need() <= limit {
		return validText(o.head)
	}
	o.save()
	half := max(0, limit-len(o.notice(name, o.total))) / 2
	head := cutTail(validText(trimPartial(o.head[:min(half, len(o.head))])), half)
	tail := cutHead(validText(trimLead(o.last(half))), half)
	return head + o.notice(name, o.total-int64(len(head)+len(tail))) + tail
}

// need is the length of the text if nothing is cut out, or more than MaxOutput
// if something must be.
func (o *output) need() int {
	if !o.whole() {
		return MaxOutput + 1
	}
	return len(validText(o.head))
}

// validText is p with U+FFFD in place of what is not UTF-8.
func validText(p []byte) string { return strings.ToValidUTF8(string(p), "\uFFFD") }

// notice stands where something was cut out.
func (o *output) notice(name string, cut int64) string {
	return fmt.Sprintf("\n\n[%d of %d bytes of %s are left out here; %s]\n\n", cut, o.total, name, o.where())
}

// where says where the whole stream is, which is then kept.
func (o *output) where() string {
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
