package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/agents-exe/agents/pkg/agent"
)

// Limits of what Read accepts.
const (
	maxLine     = 64 << 20
	maxDocument = 512 << 20 // of agents-exe, which has everything in one JSON value
)

// Read reads a session in one of two forms: JSON lines, each an event, as [Write]
// writes them and `--log-json-file` does; or a session file of agents-exe (see
// [FromAgentsExe]). The sequence can be read once.
//
// Events that do not last and other lines, such as the frames of a journal, are
// skipped. Errors name the line.
func Read(r io.Reader) iter.Seq2[agent.Event, error] {
	in := bufio.NewReaderSize(r, 64<<10)
	return func(yield func(agent.Event, error) bool) {
		if isAgentsExe(in) {
			data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
			if err == nil && len(data) > maxDocument {
				err = fmt.Errorf("it is longer than %d bytes", maxDocument)
			}
			if err != nil {
				yield(agent.Event{}, err)
				return
			}
			FromAgentsExe(data)(yield)
			return
		}
		readLines(in, yield)
	}
}

// isAgentsExe reports whether the input is one value of agents-exe: its first line
// is not an event.
func isAgentsExe(in *bufio.Reader) bool {
	start, _ := in.Peek(32 << 10)
	start = bytes.TrimLeft(start, " \t\r\n\uFEFF")
	first, _, _ := bytes.Cut(start, []byte("\n"))
	if bytes.HasPrefix(first, []byte(`{"kind":`)) || bytes.HasPrefix(first, []byte(`{"time":`)) {
		return false
	}
	return bytes.HasPrefix(start, []byte("{")) && !bytes.Contains(first, []byte(`"kind":`))
}

func readLines(in *bufio.Reader, yield func(agent.Event, error) bool) {
	for n := 1; ; n++ {
		line, err := readLine(in)
		if len(bytes.TrimSpace(line)) > 0 {
			e, decodeErr := event(line)
			if decodeErr != nil {
				if errors.Is(err, io.EOF) {
					decodeErr = fmt.Errorf("its last line is cut off: %w", decodeErr)
				}
				yield(agent.Event{}, fmt.Errorf("line %d: %w", n, decodeErr))
				return
			}
			if e.Kind.Lasting() && !yield(e, nil) {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(agent.Event{}, fmt.Errorf("line %d: %w", n, err))
			return
		}
	}
}

func event(line []byte) (agent.Event, error) {
	var e agent.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	if e.Kind == "" {
		return e, errors.New("not an event: it has no kind")
	}
	if e.Kind.Lasting() && e.Session == "" {
		return e, fmt.Errorf("an event of kind %q has no session", e.Kind)
	}
	return e, nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Write writes the events that last as JSON lines. It stops at the first error.
func Write(w io.Writer, events iter.Seq2[agent.Event, error]) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for e, err := range events {
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		if !e.Kind.Lasting() {
			continue
		}
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return out.Flush()
}

// OfState returns events of a session that lead to this state, for functions that format a
// session. Times, usage, schemas of tools and messages that a compaction removed are missing,
// because a state does not contain them.
func OfState(s agent.State) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		turn := 0
		emit := func(e agent.Event) bool {
			e.Session, e.Agent, e.Model, e.Turn = s.ID, s.Agent, s.Model, turn
			return yield(e, nil)
		}
		ended := func(i int, r *agent.ToolResult) bool {
			return emit(agent.Event{Kind: agent.EventCallEnded, CallID: r.CallID, Tool: r.Name, N: i + 1, Result: r})
		}
		setup := agent.Event{Kind: agent.EventSetup, System: s.Setup.System, Digest: s.Setup.Digest}
		for _, name := range s.Setup.Tools {
			setup.Specs = append(setup.Specs, agent.ToolSpec{Name: name})
		}
		if !emit(agent.Event{Kind: agent.EventSession}) || !emit(setup) {
			return
		}
		for i := range s.Messages {
			m := &s.Messages[i]
			ok := true
			switch m.Role {
			case agent.RoleUser:
				ok = emit(agent.Event{Kind: agent.EventMessage, Message: m})
			case agent.RoleAssistant:
				turn++
				ok = emit(agent.Event{Kind: agent.EventAnswer, Message: m})
			case agent.RoleTool:
				for n := range m.Results {
					ok = ok && ended(n, &m.Results[n])
				}
			}
			if !ok {
				return
			}
		}
		if said := len(s.Messages) > 0 && s.Messages[len(s.Messages)-1].Role == agent.RoleAssistant; s.Stopped != nil && !said && !emit(agent.Event{Kind: agent.EventFailure, Message: s.Stopped}) {
			return
		}
		for n, c := range s.Calls {
			if c.Result != nil && !ended(n, c.Result) {
				return
			}
		}
	}
}

// Sizes are the formats of a session in the prompt of another, the smallest first:
// prompts and answers (xs), also thinking and the names of called tools (s), also
// statistics (m), also the first part of arguments and results (l), complete ones and
// the sessions of sub-agents (xl).
var Sizes = []string{"xs", "s", "m", "l", "xl"}

// Context returns the format of a session in one of the Sizes, and whether
// statistics precede it.
func Context(size string) (m *Markdown, statistics bool) {
	switch size {
	case "xs":
		return &Markdown{Answers: true}, false
	case "s":
		return &Markdown{Thinking: true, Calls: Hidden}, false
	case "m":
		return &Markdown{Thinking: true, Calls: Hidden}, true
	case "l":
		return &Markdown{Thinking: true, Calls: Cut}, true
	}
	return &Markdown{Thinking: true, Calls: Whole, SubAgents: true}, true
}
