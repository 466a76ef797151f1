package session

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// decode reads an event as encoding/json would, but several times faster: it
// knows the form in which this package writes and leaves everything else to
// encoding/json.
func decode(line []byte, e *agent.Event) error {
	var d decoder
	return d.decode(line, e)
}

// decodeBrief is as decode but leaves out what was said, which takes time.
func decodeBrief(line []byte, e *agent.Event) error {
	d := decoder{brief: true}
	return d.decode(line, e)
}

func (d *decoder) decode(line []byte, e *agent.Event) error {
	if d.b, d.i, d.odd = line, 0, false; d.brief || utf8.Valid(line) {
		d.event(e)
		if !d.odd && d.i == len(line) {
			return nil
		}
	}
	*e = agent.Event{}
	return json.Unmarshal(line, e)
}

// A decoder reads JSON without spaces between its parts.
type decoder struct {
	b []byte
	i int
	// odd says that something is not as this package writes it.
	odd bool
	// spare holds what a text with escapes is put together in.
	spare []byte
	// names are the last few words that come again and again.
	names [8]string
	turn  int // the place of the next
	// brief leaves out what was said and keeps what was counted.
	brief bool
}

// object calls member for each member; it must take the value.
func (d *decoder) object(member func(key []byte)) {
	if !d.take('{') || d.may('}') {
		return
	}
	for {
		key := d.plain()
		if !d.take(':') {
			return
		}
		member(key)
		if d.odd || !d.may(',') {
			break
		}
	}
	d.take('}')
}

// array calls element for each element; it must take it.
func (d *decoder) array(element func()) {
	if !d.take('[') {
		return
	}
	if d.may(']') { // the encoder leaves empty lists out
		d.odd = true
		return
	}
	for {
		element()
		if d.odd || !d.may(',') {
			break
		}
	}
	d.take(']')
}

// take expects c.
func (d *decoder) take(c byte) bool {
	if !d.may(c) {
		d.odd = true
	}
	return !d.odd
}

// may takes c if it comes next.
func (d *decoder) may(c byte) bool {
	if d.i < len(d.b) && d.b[d.i] == c {
		d.i++
		return true
	}
	return false
}

// plain takes a text without escapes.
func (d *decoder) plain() []byte {
	if !d.take('"') {
		return nil
	}
	start := d.i
	for ; d.i < len(d.b); d.i++ {
		switch c := d.b[d.i]; {
		case c == '"':
			d.i++
			return d.b[start : d.i-1]
		case c == '\\' || c < ' ':
			d.odd = true
			return nil
		}
	}
	d.odd = true
	return nil
}

// bytes takes a text. It is valid until the next call.
func (d *decoder) bytes() []byte {
	if !d.take('"') {
		return nil
	}
	b, start := d.b, d.i
	for i, escaped := start, false; i < len(b); i++ {
		c := b[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		d.i = i + 1
		if c == '"' {
			if escaped {
				d.spare = append(d.spare, b[start:i]...)
				return d.spare
			}
			return b[start:i]
		}
		if !escaped {
			d.spare, escaped = d.spare[:0], true
		}
		d.spare = append(d.spare, b[start:i]...)
		if c != '\\' || !d.escape() {
			break
		}
		i = d.i - 1
		start = d.i
	}
	d.odd = true
	return nil
}

// escape takes what follows a backslash and adds what it means to spare.
func (d *decoder) escape() bool {
	if d.i >= len(d.b) {
		return false
	}
	c := d.b[d.i]
	d.i++
	switch c {
	case '"', '\\', '/':
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'u':
		r, ok := hex4(d.b[d.i:])
		if !ok || utf16.IsSurrogate(r) {
			return false
		}
		d.i += 4
		d.spare = utf8.AppendRune(d.spare, r)
		return true
	default:
		return false
	}
	d.spare = append(d.spare, c)
	return true
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

func (d *decoder) text() string { return string(d.bytes()) }

// name takes a text that was probably there a moment ago, without a copy of it.
func (d *decoder) name() string {
	b := d.bytes()
	for _, s := range d.names {
		if string(b) == s {
			return s
		}
	}
	s := string(b)
	d.names[d.turn] = s
	d.turn = (d.turn + 1) % len(d.names)
	return s
}

// int takes a whole number.
func (d *decoder) int() int64 {
	negative := d.may('-')
	digits := d.i
	var n int64
	for ; d.i < len(d.b) && '0' <= d.b[d.i] && d.b[d.i] <= '9'; d.i++ {
		n = n*10 + int64(d.b[d.i]-'0')
	}
	count := d.i - digits
	if count == 0 || count > 18 || count > 1 && d.b[digits] == '0' || d.number() {
		d.odd = true
	}
	if negative {
		return -n
	}
	return n
}

// number reports whether a number goes on here.
func (d *decoder) number() bool {
	if d.i >= len(d.b) {
		return false
	}
	switch d.b[d.i] {
	case '.', 'e', 'E', '+', '-':
		return true
	}
	return false
}

func (d *decoder) float() float64 {
	raw := d.raw()
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !json.Valid(raw) {
		d.odd = true
	}
	return f
}

func (d *decoder) bool() bool {
	switch string(d.raw()) {
	case "true":
		return true
	case "false":
	default:
		d.odd = true
	}
	return false
}

func (d *decoder) time() time.Time {
	var t time.Time
	if t.UnmarshalText(d.bytes()) != nil {
		d.odd = true
	}
	return t
}

func (d *decoder) base64() []byte {
	b, err := base64.StdEncoding.AppendDecode(nil, d.bytes())
	if err != nil {
		d.odd = true
	}
	return b
}

// raw takes a value of any kind as it stands. Whether it is right is only known as
// far as needed to find its end.
func (d *decoder) raw() []byte {
	start, depth := d.i, 0
	for d.i < len(d.b) {
		switch d.b[d.i] {
		case '"':
			d.pass()
			if depth == 0 {
				return d.b[start:d.i]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return d.b[start:d.i]
			}
			if depth--; depth == 0 {
				d.i++
				return d.b[start:d.i]
			}
		case ',':
			if depth == 0 {
				return d.b[start:d.i]
			}
		}
		d.i++
	}
	d.odd = true
	return nil
}

// pass goes over a text.
func (d *decoder) pass() {
	for d.i++; d.i < len(d.b); d.i++ {
		switch d.b[d.i] {
		case '\\':
			d.i++
		case '"':
			d.i++
			return
		}
	}
	d.odd = true
}

// json takes JSON that is kept as it came.
func (d *decoder) json() json.RawMessage {
	raw := d.raw()
	if !json.Valid(raw) {
		d.odd = true
	}
	return append(json.RawMessage(nil), raw...)
}

// skip takes a value that nobody needs.
func (d *decoder) skip() {
	if raw := d.raw(); len(raw) == 0 {
		d.odd = true
	}
}
