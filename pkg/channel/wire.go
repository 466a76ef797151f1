package channel

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// Version is the version of the protocol.
const Version = agent.ChannelVersion

// MaxLine is how many bytes a line may have, with its newline.
const MaxLine = 16 << 20

// The kinds of messages to a run.
const (
	kindStart   = "start"
	kindInput   = "input"
	kindCompact = "compact"
	kindReply   = "reply"
	kindDelta   = "delta"
	kindResult  = "result"
	kindAck     = "ack"
	kindCancel  = "cancel"
)

// A message is any message of a holder except start. Kind determines which fields are
// set.
type message struct {
	Kind     string          `json:"kind"`
	Session  string          `json:"session,omitempty"`
	Text     string          `json:"text,omitempty"`
	Media    []agent.Part    `json:"media,omitempty"`
	Question string          `json:"question,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	Delta    *agent.Delta    `json:"delta,omitempty"`
	Key      string          `json:"key,omitempty"`
	Parts    []agent.Part    `json:"parts,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
	Seq      int64           `json:"seq,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// start is the wire form of agent.Start.
type start struct {
	Kind string `json:"kind"`
	agent.Start
}

var (
	errLong = fmt.Errorf("a line has more than %d bytes", MaxLine)
	errHalf = errors.New("the last line has no end")
)

// lines reads lines of at most MaxLine bytes.
type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line that is not empty, valid until the following call. The
// error is io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.one()
		if line = bytes.TrimSpace(line); err != nil || len(line) > 0 {
			return line, err
		}
	}
}

func (l *lines) one() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, lineError(line, err)
	}
	whole := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.r.ReadSlice('\n')
		if len(whole)+len(line) > MaxLine {
			return nil, errLong
		}
		whole = append(whole, line...)
	}
	return whole, lineError(whole, err)
}

func lineError(line []byte, err error) error {
	if err == io.EOF && len(bytes.TrimSpace(line)) > 0 {
		return errHalf
	}
	return err
}

// encode returns the line for v. The error is errLong if it is too long.
func encode(v any) ([]byte, error) {
	line, err := jsondoc.Encode(v, "")
	switch {
	case err != nil:
		return nil, err
	case len(line) >= MaxLine:
		return nil, errLong
	}
	return append(line, '\n'), nil
}

// jsonError says what is wrong with a line that json.Unmarshal refused with err, in words
// without the types of this program.
func jsonError(line []byte, err error) error {
	kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		if _, syntax := jsondoc.Parse(line, jsondoc.Options{}); syntax != nil {
			return fmt.Errorf("it is not JSON: %w", syntax)
		}
		return err
	}
	var path []string
	for name := range strings.SplitSeq(kind.Field, ".") {
		if name != "" && unicode.IsLower(rune(name[0])) { // the others are embedded structs
			path = append(path, name)
		}
	}
	want := "an object"
	switch kind.Type.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.Slice:
		want = "an array"
	}
	return fmt.Errorf("%s: got %s, want %s", cmp.Or(strings.Join(path, "."), "it"), kind.Value, want)
}
