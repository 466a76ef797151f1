package exectool

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
)

// Limits of what a tool prints.
const (
	// MaxOutput is how many bytes of a call's output reach the model.
	MaxOutput = spool.MaxText
	// MaxMedia is the size of the largest attachment.
	MaxMedia = 20_000_000
)

// A call is one run of a tool and what it printed.
type call struct {
	desc           *Description
	stdout, stderr spool.Output
	stderrWriter   stderrWriter
	exit           process.Exit
}

// result returns what the model gets. It closes the streams' files and keeps those that the
// result mentions.
func (c *call) result(failure error) (agent.Result, error) {
	defer c.stdout.Close()
	defer c.stderr.Close()
	if failure != nil {
		return c.failed(failure)
	}
	return c.succeeded()
}

func (c *call) succeeded() (agent.Result, error) {
	switch {
	case c.stdout.Total() == 0 && c.desc.Empty != "":
		return agent.TextResult(c.desc.Empty), nil
	case c.desc.MediaType != "":
		return c.media()
	case c.stdout.IsBinary():
		return c.binary(), nil
	default:
		return agent.TextResult(c.stdout.Render(MaxOutput, "stdout")), nil
	}
}

// media is stdout as an attachment of the type that the description names.
func (c *call) media() (agent.Result, error) {
	kind := c.desc.MediaType
	if c.stdout.Total() == 0 {
		return agent.Result{}, fmt.Errorf("the tool printed nothing instead of %s", kind)
	}
	tooLarge := func(n int64) (agent.Result, error) {
		return agent.Result{}, fmt.Errorf("the tool printed %d bytes of %s and an attachment can have %d; ask for less, or for a file%s", n, kind, MaxMedia, c.stdout.Reference())
	}
	if c.stdout.Total() > MaxMedia*3/2 { // base64 and its line breaks included
		return tooLarge(c.stdout.Total())
	}
	data, err := c.stdout.Read()
	if err != nil {
		return agent.Result{}, fmt.Errorf("the tool printed %d bytes of %s, which could not be kept: %w", c.stdout.Total(), kind, err)
	}
	if decoded, ok := decodeBase64(data, kind); ok {
		data = decoded
	}
	if len(data) > MaxMedia {
		return tooLarge(int64(len(data)))
	}
	return agent.Result{Parts: []agent.Part{{Kind: agent.PartMedia, MIME: kind, Data: data}}}, nil
}

// binary is stdout that is not text although the description does not say so: an
// attachment if it is small, and in any case a text that says what it is.
func (c *call) binary() agent.Result {
	const kind = "application/octet-stream"
	what := fmt.Sprintf("[stdout is not text: %d bytes that are not UTF-8", c.stdout.Total())
	if c.stdout.Whole() {
		return agent.Result{Parts: []agent.Part{
			agent.Text(what + "; they are attached as " + kind + "]"),
			{Kind: agent.PartMedia, MIME: kind, Data: c.stdout.Head()},
		}}
	}
	return agent.TextResult(what + c.stdout.Reference() + "]")
}

// failed is an error beside what the tool printed.
func (c *call) failed(err error) (agent.Result, error) {
	limit := MaxOutput - len(err.Error()) - len("error: ")
	switch {
	case c.stdout.Total() == 0 && c.stderr.Total() == 0:
		return agent.Result{}, fmt.Errorf("%w; it printed nothing", err)
	case c.stdout.Total() == 0:
		return agent.TextResult("\n" + c.stderr.Text(limit-1, "stderr")), err
	case c.stderr.Total() == 0:
		return agent.TextResult("\n" + c.stdout.Text(limit-1, "stdout")), err
	}
	const first, second = "\nstdout:\n", "\nstderr:\n"
	limit -= len(first) + len(second)
	out, errs := limit/2, limit/2 // what the one does not need is the other's
	if n := c.stderr.Need(); n < errs {
		out = limit - n
	} else if n := c.stdout.Need(); n < out {
		errs = limit - n
	}
	text := first + strings.TrimSuffix(c.stdout.Text(out, "stdout"), "\n") + second + c.stderr.Text(errs, "stderr")
	return agent.TextResult(text), err
}

// decodeBase64 decodes data that is base64 (RFC 4648, padded, with or without
// line breaks) and nothing else. Where the type is text, which may look like
// base64 by chance, the data must be long and text again when it is decoded.
func decodeBase64(data []byte, kind string) ([]byte, bool) {
	packed := slices.DeleteFunc(bytes.Clone(data), func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' })
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(packed)))
	n, err := base64.StdEncoding.Decode(decoded, packed)
	if err != nil || n == 0 || isTextType(kind) && (len(packed) < 32 || !isText(decoded[:n])) {
		return nil, false
	}
	return decoded[:n], true
}

func isTextType(kind string) bool {
	return strings.HasPrefix(kind, "text/") ||
		strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml") || strings.HasSuffix(kind, "yaml")
}

// isText reports whether data is UTF-8 without control characters.
func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	return bytes.IndexFunc(data, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) < 0
}
