package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Limits of what one line shows, in cells.
const (
	maxLabel = 160
	maxValue = 60
	maxNote  = 240
)

// maxParsed is the size up to which arguments are parsed.
const maxParsed = 64 << 10

// shortArgs formats the arguments of a call as name=value pairs on one line, in the
// order of the model. Arguments that are not a JSON object are shown unchanged.
func shortArgs(args string, more string) string {
	switch strings.TrimSpace(args) {
	case "", "null", "{}":
		return ""
	}
	pairs, ok := argPairs(args, more)
	if !ok {
		return termtext.Line(args, maxLabel, more)
	}
	return termtext.Cut(pairs, maxLabel, more)
}

func argPairs(args, more string) (string, bool) {
	if len(args) > maxParsed {
		return "", false
	}
	dec := json.NewDecoder(strings.NewReader(args))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return "", false
	}
	var b strings.Builder
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return "", false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return "", false
		}
		if b.Len() > maxLabel*4 {
			continue // no room; but the rest must be JSON
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", termtext.Line(fmt.Sprint(key), maxValue, more), shortValue(value, more))
	}
	_, err := dec.Token()
	return b.String(), err == nil
}

// shortValue formats a value as a person would type it: strings have quotes only if
// they need them.
func shortValue(raw json.RawMessage, more string) string {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return termtext.Line(string(raw), maxValue, more)
	}
	s = termtext.Line(s, maxValue, more)
	if s == "" || strings.ContainsAny(s, " \"'") {
		return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	return s
}

// firstLine is the first line of s that is not blank, clean.
func firstLine(s string, n int, more string) string {
	if lines := cleanLines(s, n); len(lines) > 0 {
		return termtext.Cut(lines[0], n, more)
	}
	return ""
}

// flat returns s cleaned and on one line, with its lines joined by semicolons.
func flat(s string, n int, more string) string {
	return termtext.Cut(strings.Join(cleanLines(s, n), "; "), n, more)
}

// cleanLines returns the cleaned lines of s that are not blank, without most of the
// text that does not fit into n cells.
func cleanLines(s string, n int) []string {
	if len(s) > 16*n {
		s = strings.ToValidUTF8(s[:16*n], "")
	}
	var lines []string
	for line := range strings.Lines(termtext.Clean(s)) {
		if line = strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// toolFailure is the error of an MCP tool that reports a failure; the server's own
// text follows it.
const toolFailure = "the tool reports a failure"

// reason returns why a call failed, on one line. The line after a short error is
// added to it, and the last line that the tool printed is added to an exit status.
func reason(r *agent.ToolResult, more string) string {
	if r == nil || !r.Failed {
		return ""
	}
	text := strings.TrimPrefix(r.Text(), "error: ")
	lines := cleanLines(text, maxNote)
	if len(lines) == 0 {
		return "failed"
	}
	why := lines[0]
	if code, ok := strings.CutPrefix(why, "exit status "); ok && strings.Trim(code, "0123456789") == "" {
		text = strings.TrimSpace(text)
		end := cleanLines(strings.ToValidUTF8(text[max(0, len(text)-16*maxNote):], ""), maxNote)
		if len(end) > 0 && end[len(end)-1] != why { // the end of a long text can be invisible
			why += ": " + end[len(end)-1]
		}
	} else if len(lines) > 1 && strings.HasSuffix(why, ":") {
		why += " " + lines[1]
	} else if len(lines) > 1 && why == toolFailure {
		why = lines[1]
	}
	return termtext.Cut(why, maxNote, more)
}

// millis is a number of milliseconds as a duration.
func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// retryText is the text of a repeated model request.
func retryText(e agent.Event, more string) string {
	if e.Fallback != "" {
		return fmt.Sprintf("model request failed, %s is asked instead: %s", modelName(&e), firstLine(e.Error, maxNote, more))
	}
	return fmt.Sprintf("model request failed, attempt %d in %s: %s",
		e.Attempt+1, termtext.Elapsed(millis(e.Millis)), firstLine(e.Error, maxNote, more))
}

// modelName names the model of an event by its name in the agent file and that of its server.
func modelName(e *agent.Event) string {
	name, model := flat(e.Fallback, maxNote, "…"), flat(e.Model, maxNote, "…")
	if model == "" || model == name {
		return name
	}
	return name + " (" + model + ")"
}

// Args formats the arguments of a call on one line, as the rows of a Tree do.
func Args(args string) string { return shortArgs(args, "…") }
