package observe

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// JSONLines writes every event as one line: the JSON object of agent.Event.
// Observe must not be called concurrently with itself.
type JSONLines struct {
	// W gets one Write for each line. It is required.
	W io.Writer
	// Pieces includes the pieces of answers (agent.EventText and
	// agent.EventReasoning). The answers themselves are always there.
	Pieces bool

	err error
}

// Observe writes e. After an error of W it writes nothing more, so that only the last
// line can be incomplete.
func (j *JSONLines) Observe(e agent.Event) {
	if j.err != nil || !j.Pieces && piece(e.Kind) {
		return
	}
	_, j.err = j.W.Write(jsonLine(e))
}

// Err returns the first error of W. The lines before it are complete.
func (j *JSONLines) Err() error { return j.err }

// piece reports whether events of kind k are pieces of an answer.
func piece(k agent.EventKind) bool {
	return k == agent.EventText || k == agent.EventReasoning
}

// jsonLine returns e as JSON with a newline. It also escapes control and invisible
// characters that JSON does not escape. An event that cannot be encoded is replaced by
// a warning.
func jsonLine(e agent.Event) []byte {
	line, err := jsondoc.Encode(e, "")
	if err != nil {
		lost := agent.Event{Time: e.Time, Kind: agent.EventWarning, Session: e.Session, Agent: e.Agent,
			Parent: e.Parent, Depth: e.Depth, Turn: e.Turn, CallID: e.CallID, Tool: e.Tool, Key: e.Key,
			Text: fmt.Sprintf("cannot encode an event of kind %s as JSON: %v", e.Kind, err)}
		if line, err = jsondoc.Encode(lost, ""); err != nil {
			return nil // only a time beyond the year 9999 leads here
		}
	}
	return escapeJSON(append(line, '\n'))
}

// escapeJSON escapes control and invisible characters in a JSON text. They occur only
// in strings.
func escapeJSON(line []byte) []byte {
	var b strings.Builder
	start := 0
	for i := 0; i < len(line); {
		r, n := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(line[i:])
		}
		if r == 0x7f || r >= 0x80 && termtext.Hidden(r) {
			b.Write(line[start:i])
			b.WriteString(jsonEscape(r))
			start = i + n
		}
		i += n
	}
	if start == 0 {
		return line
	}
	b.Write(line[start:])
	return []byte(b.String())
}

func jsonEscape(r rune) string {
	if r <= 0xffff {
		return fmt.Sprintf(`\u%04x`, r)
	}
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}
