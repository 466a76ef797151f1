// Package traceid derives the ids of traces and spans from what identifies a run
// anyway: the ids of sessions and the keys of calls. So no id is stored, every
// process of a tree computes the same ids, and a run that is resumed continues its
// trace.
//
//   - A trace is that of the traceparent which a run was given ([Parse]), otherwise
//     that of the root's session ([Root]).
//   - A span is that of a tool call ([Call]), a run of an agent ([Run]) or a model
//     request ([Model], [Summary]).
//
// The context that a tool call passes on:
//
//	c := traceid.Root(session)
//	c.Span = traceid.Call(key)
//	env = append(env, "TRACEPARENT="+c.String())
package traceid

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// A Context is a position in a trace: W3C Trace Context,
// https://www.w3.org/TR/trace-context/.
type Context struct {
	Trace string // 32 hexadecimal digits in lower case
	Span  string // 16 of them; "" at the root of a trace
	// Sampled says that the caller records the trace.
	Sampled bool
}

// Parse reads a traceparent. ok is false if it is not valid.
func Parse(s string) (c Context, ok bool) {
	const length = len("00-" + "0123456789abcdef0123456789abcdef" + "-" + "0123456789abcdef" + "-00")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	version, flags := s[:2], s[53:length]
	c = Context{Trace: s[3:35], Span: s[36:52]}
	if !isHex(version+c.Trace+c.Span+flags) || strings.Trim(c.Trace, "0") == "" || strings.Trim(c.Span, "0") == "" {
		return Context{}, false
	}
	// Versions after 00 may have more fields.
	if version == "ff" || version == "00" && len(s) > length || len(s) > length && s[length] != '-' {
		return Context{}, false
	}
	bits, _ := strconv.ParseUint(flags, 16, 8) // two digits, see above
	c.Sampled = bits&1 != 0
	return c, true
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// String is the traceparent of c, in version 00. Without a span it is empty.
func (c Context) String() string {
	if c.Span == "" {
		return ""
	}
	flags := "-00"
	if c.Sampled {
		flags = "-01"
	}
	return "00-" + c.Trace + "-" + c.Span + flags
}

// Root is the trace of a root's session that was not given a traceparent, without
// a span.
func Root(session string) Context { return Context{Trace: derive(session, 16), Sampled: true} }

// Call is the span of the tool call with the given key.
func Call(key string) string { return derive(key, 8) }

// Run is the span of a run. turn is the number of answers that were in the session
// when its prompt came.
func Run(session string, turn int) string { return derive(session+".run."+strconv.Itoa(turn), 8) }

// Model is the span of the model request of a turn, with its retries.
func Model(session string, turn int) string {
	return derive(session+"."+strconv.Itoa(turn)+".model", 8)
}

// Summary is the span of the request for a summary that precedes a turn.
func Summary(session string, turn int) string {
	return derive(session+"."+strconv.Itoa(turn)+".summary", 8)
}

func derive(from string, bytes int) string {
	sum := sha256.Sum256([]byte(from))
	return hex.EncodeToString(sum[:bytes])
}
