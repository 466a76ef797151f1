package replay

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// A Miss is the end of a replay that asked for something that is not in the record.
type Miss struct {
	// Agent is the slug of the agent that asked, Path its session (see the package
	// comment) and Turn its turn.
	Agent string
	Path  string
	Turn  int
	// What says what is missing.
	What string
	// Diff shows how the request or call differs from the most similar recorded
	// one: lines that begin with "-" and "+". It is empty if there is none.
	Diff string
}

// Error is one line, followed by the difference.
func (m *Miss) Error() string {
	text := fmt.Sprintf("%s, turn %d: %s", named(m.Agent, m.Path), m.Turn, m.What)
	if m.Diff != "" {
		text += "\n--- recorded\n+++ now\n" + m.Diff
	}
	return text
}

// named names an agent, and its session if that is not the root.
func named(slug, path string) string {
	if path == "" {
		return "agent " + slug
	}
	return fmt.Sprintf("agent %s (session %s)", slug, path)
}

// missCall is the error for a call that is not in the record, of the session at path.
// near may be nil.
func missCall(path string, inv *agent.Invocation, near *call) error {
	m := &Miss{Agent: inv.Agent, Path: path, Turn: inv.Turn, What: fmt.Sprintf("the record has no such call of %s", inv.Call.Name)}
	if near == nil {
		m.What += ", nor an unused one that is similar"
		return m
	}
	m.Diff = diff(callLines(near.call), callLines(inv.Call))
	return m
}

func callLines(c agent.ToolCall) []string {
	return append([]string{"call " + c.Name}, textLines(jsondoc.Format(c.Args, "  "))...)
}

// maxLine is the length in runes at which a line of a difference is broken.
const maxLine = 160

// diff shows the differences between the recorded lines and those of now.
func diff(recorded, now []string) string {
	return cmp.Or(standin.Diff(recorded, now), "(the difference is in media, or in data for the model's provider, and not shown)")
}

// diffRequests compares requests. What the conversations share at their beginning is
// left out.
func diffRequests(a *request, req *agent.Request) string {
	old := &agent.Request{Messages: a.messages}
	if a.setup != nil {
		old.System, old.Tools = a.setup.system, a.setup.tools
	} else {
		old.System, old.Tools = req.System, req.Tools
	}
	same := 0
	for same < min(len(old.Messages), len(req.Messages)) && sameMessage(old.Messages[same], req.Messages[same]) {
		same++
	}
	from := max(same-1, 0)
	return diff(requestLines(old, from), requestLines(req, from))
}

// requestLines is a request as a person reads it, with the messages from an index on.
func requestLines(req *agent.Request, from int) []string {
	lines := append([]string{"system:"}, textLines(req.System)...)
	for _, t := range req.Tools {
		lines = append(lines, "tool "+t.Name+":")
		lines = append(append(lines, textLines(t.Description)...), textLines(jsondoc.Format(string(t.Schema), "  "))...)
	}
	for i, m := range req.Messages[from:] {
		lines = append(lines, fmt.Sprintf("message %d, %s:", from+i+1, m.Role))
		lines = append(lines, partLines(m.Parts)...)
		for _, c := range m.Calls {
			lines = append(lines, callLines(c)...)
		}
		for _, r := range m.Results {
			failed := ""
			if r.Failed {
				failed = ", failed"
			}
			lines = append(lines, fmt.Sprintf("result of %s%s:", r.Name, failed))
			lines = append(lines, partLines(r.Parts)...)
		}
	}
	return lines
}

func partLines(parts []agent.Part) []string {
	var lines []string
	for _, p := range parts {
		switch p.Kind {
		case agent.PartMedia:
			lines = append(lines, fmt.Sprintf("  %s: %s %s, %d bytes", p.Kind, p.MIME, p.Name, len(p.Data)))
		case agent.PartText:
			lines = append(lines, textLines(p.Text)...)
		default:
			lines = append(append(lines, "  "+string(p.Kind)+":"), textLines(p.Text)...)
		}
	}
	return lines
}

// textLines are the lines of a text, none of them long.
func textLines(text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	for line := range strings.Lines(text) {
		runes := []rune(strings.TrimRight(line, "\n"))
		for len(runes) > maxLine {
			lines = append(lines, "  "+string(runes[:maxLine]))
			runes = runes[maxLine:]
		}
		lines = append(lines, "  "+string(runes))
	}
	return lines
}
