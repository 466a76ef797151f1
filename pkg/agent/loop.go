package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The loop guard counts turns in a row that make the same calls and get the same
// results. After LoopWarn of them a notice after the last result warns the model, and
// after LoopEnd of them the run ends with StatusLimit. Tools that declare no effects
// count too: a tool that polls should wait longer in each call. The count is part of
// the session, so a resumed run continues it.

// The defaults of the loop guard.
const (
	DefaultLoopWarn = 3
	DefaultLoopEnd  = 5
)

// A Loop says that the last Count turns were the same. Tools are the names of the tools
// that they called.
type Loop struct {
	Digest string `json:"digest"`
	Tools  string `json:"tools"`
	Count  int    `json:"count"`
}

const loopNotice = "[This is the %s time in a row that %s was called with the same arguments and gave the same result. Do something else, or answer.%s]"

// noteLoop counts a turn whose results are complete, and adds the notice to them.
func (s *Session) noteLoop(calls []ToolCall, results []ToolResult) {
	if s.Limits.LoopWarn <= 0 && s.Limits.LoopEnd <= 0 {
		return
	}
	digest := turnDigest(calls, results)
	if digest == s.Loop.Digest {
		s.Loop.Count++
	} else {
		s.Loop = Loop{Digest: digest, Tools: callNames(calls), Count: 1}
	}
	if s.Loop.Count != s.Limits.LoopWarn {
		return
	}
	end := ""
	if s.Limits.LoopEnd > s.Loop.Count {
		end = fmt.Sprintf(" After %d times the run ends.", s.Limits.LoopEnd)
	}
	last := &results[len(results)-1]
	last.Parts = append(slices.Clone(last.Parts), Text("\n"+fmt.Sprintf(loopNotice, ordinal(s.Loop.Count), s.Loop.Tools, end)))
}

// looping is the error that ends a run that repeats itself; nil if the run may continue.
func (s *Session) looping() error {
	if s.Limits.LoopEnd <= 0 || s.Loop.Count < s.Limits.LoopEnd {
		return nil
	}
	return fmt.Errorf("%w: %s was called %d times in a row with the same arguments and gave the same result", ErrLoop, s.Loop.Tools, s.Loop.Count)
}

// turnDigest is the same for turns with the same calls and results.
func turnDigest(calls []ToolCall, results []ToolResult) string {
	h := sha256.New()
	var b []byte
	for i, c := range calls {
		b = field(field(b, c.Name), canonicalArgs(c.Args))
		b = strconv.AppendBool(b, results[i].Failed)
		for _, p := range results[i].Parts {
			b = field(field(field(field(b, p.Kind), p.Text), p.MIME), p.Name)
			h.Write(b)
			b = b[:0]
			sum := sha256.Sum256(p.Data)
			h.Write(sum[:])
		}
		h.Write(b)
		b = b[:0]
	}
	return hex.EncodeToString(h.Sum(nil))
}

// canonicalArgs is the same text for arguments that are equal as JSON.
func canonicalArgs(args string) string {
	_, values, err := decodeArgs(args)
	if err != nil {
		return args
	}
	text, err := json.Marshal(values)
	if err != nil {
		return args
	}
	return string(text)
}

// callNames lists the names of the called tools, each once.
func callNames(calls []ToolCall) string {
	var names []string
	for _, c := range calls {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	const most = 5
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d others", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// ordinal writes 3 as "third", and numbers above five as in "11th".
func ordinal(n int) string {
	if n > 0 && n <= 5 {
		return [...]string{"first", "second", "third", "fourth", "fifth"}[n-1]
	}
	suffix := "th"
	if n/10%10 != 1 && n%10 >= 1 && n%10 <= 3 {
		suffix = [...]string{"st", "nd", "rd"}[n%10-1]
	}
	return strconv.Itoa(n) + suffix
}
