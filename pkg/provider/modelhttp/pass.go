package modelhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/agents-exe/agents/pkg/agent"
)

// Pass sends req.Pass, and reads the answer into a while the program gets it. With usage, the
// server of chat completions is asked to end a stream with the usage; the program gets that only
// if it asked for it too. No redirect is followed.
func (x *Exchange) Pass(ctx context.Context, req *agent.Request, a Answer, usage bool) (*agent.Response, error) {
	p := req.Pass
	if !json.Valid(p.Body) || ObjectOf(bytes.TrimSpace(p.Body)) == nil {
		return nil, &agent.ModelError{Message: "the request is not a JSON object"}
	}
	body := SetMember(p.Body, "model", AppendString(nil, x.settings.Model))
	var out io.Writer = writerFunc(func(piece []byte) (int, error) {
		p.Begun = true
		return len(piece), p.Write(x.kind, piece)
	})
	var filter *withoutUsage
	o := ObjectOf(body)
	options := o.Get("stream_options")
	if usage && string(o.Get("stream")) == "true" && string(ObjectOf(options).Get("include_usage")) != "true" {
		if ObjectOf(options) == nil {
			options = []byte("{}")
		}
		body = SetMember(body, "stream_options", SetMember(options, "include_usage", []byte("true")))
		filter = &withoutUsage{w: out}
		out = filter
	}
	if x.Header == nil {
		x.Header = map[string]string{}
	}
	maps.Copy(x.Header, p.Header)
	x.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	redacted := x.secrets.Writer(out) // a server may send back what it got
	x.pass, x.passed = p, redacted
	x.passHeld = func() error {
		if err := redacted.Close(); err != nil || filter == nil {
			return err
		}
		return filter.end()
	}
	return x.Run(ctx, req, body, a)
}

// passRest passes on what follows the answer, or what is not one, and what was held back, also if
// the answer breaks off. A program that has nothing of it gets the error in its place.
func (x *Exchange) passRest(in io.Reader) error {
	_, err := io.Copy(io.Discard, in)
	if err != nil && !x.pass.Begun {
		return err
	}
	return errors.Join(err, x.passHeld())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// SetMember returns a JSON object with another value of a member, everywhere if it occurs more
// than once. All other bytes stay as they are.
func SetMember(object []byte, name string, value []byte) []byte {
	o := ObjectOf(object)
	found := false
	out := make([]byte, 0, len(object)+len(name)+len(value)+4)
	end := 0
	for i := 0; i+1 < len(o); i += 2 {
		if Str(o[i]) != name {
			continue
		}
		found = true
		at := cap(object) - cap(o[i+1]) // it is a part of object
		out = append(append(out, object[end:at]...), value...)
		end = at + len(o[i+1])
	}
	if !found {
		at := bytes.IndexByte(object, '{') + 1
		out = append(AppendString(append(out, object[:at]...), name), ':')
		out, end = append(out, value...), at
		if len(o) > 0 {
			out = append(out, ',')
		}
	}
	return append(out, object[end:]...)
}

// A withoutUsage leaves out the last chunk of chat completions, which has the usage and nothing
// else.
type withoutUsage struct {
	w    io.Writer
	held []byte // of an event
}

// Write implements io.Writer.
func (f *withoutUsage) Write(p []byte) (int, error) {
	f.held = append(f.held, p...)
	for {
		end := eventEnd(f.held)
		if end < 0 {
			break
		}
		if !isUsage(f.held[:end]) {
			if _, err := f.w.Write(f.held[:end]); err != nil {
				return 0, err
			}
		}
		f.held = f.held[:copy(f.held, f.held[end:])]
	}
	return len(p), nil
}

// end passes on what has no empty line behind it: the answer of a server that does not stream, or
// the last event of one that leaves that line out.
func (f *withoutUsage) end() error {
	if len(f.held) == 0 || isUsage(f.held) {
		return nil
	}
	_, err := f.w.Write(f.held)
	return err
}

// eventEnd returns the end of the first event, -1 if there is none.
func eventEnd(data []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		if rest := bytes.TrimPrefix(data[at:], []byte{'\r'}); len(rest) > 0 && rest[0] == '\n' {
			return len(data) - len(rest) + 1
		}
	}
}

func isUsage(event []byte) bool {
	for line := range bytes.Lines(event) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok || !bytes.Contains(data, []byte(`"usage"`)) || CheckJSON(data) != nil {
			continue
		}
		o := ObjectOf(bytes.TrimSpace(data))
		return FirstByte(o.Get("usage")) == '{' && len(Elements(o.Get("choices"))) == 0
	}
	return false
}
