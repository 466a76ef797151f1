package mcpclient

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/spool"
)

// misfit says what of a server's message has the wrong form, in words without the
// types of this program.
func misfit(err error) error {
	kind, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return fmt.Errorf("the server's message does not follow the protocol: %w", err)
	}
	what := "it"
	if kind.Field != "" {
		what = "its " + kind.Field
	}
	return fmt.Errorf("the server's message does not follow the protocol: %s is of the wrong type, a JSON %s", what, kind.Value)
}

// A callResult is the answer to tools/call.
type callResult struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
}

// parts turns a result into what the model sees. Structured content is left out
// if a text says the same, which the protocol recommends to servers.
func (r *callResult) parts(raw json.RawMessage) []agent.Part {
	var parts []agent.Part
	structured := len(r.Structured) > 0 && string(r.Structured) != "null"
	for _, item := range r.Content {
		for _, p := range contentParts(item) {
			if structured && p.Kind == agent.PartText && repeats(p.Text, r.Structured) {
				structured = false
			}
			parts = append(parts, p)
		}
	}
	if structured {
		parts = append(parts, agent.Text(string(r.Structured)))
	}
	if r.Content == nil && len(r.Structured) == 0 {
		parts = append(parts, agent.Text(string(raw))) // no result that any version knows
	}
	return parts
}

// repeats reports whether structured content says no more than text: it is the
// same JSON, or, as servers whose tools give a text do it, an object that holds
// just that text.
func repeats(text string, structured json.RawMessage) bool {
	var wrapped map[string]any
	if json.Unmarshal(structured, &wrapped) == nil && len(wrapped) == 1 {
		for _, v := range wrapped {
			if v == text {
				return true
			}
		}
	}
	return sameJSON(text, structured)
}

// sameJSON reports whether text is the value of raw, written in any way.
func sameJSON(text string, raw json.RawMessage) bool {
	a, errA := jsondoc.Decode([]byte(text))
	b, errB := jsondoc.Decode(raw)
	return errA == nil && errB == nil && reflect.DeepEqual(a, b)
}

// A content is an item of a result, of any type that the protocol has.
type content struct {
	Type        string           `json:"type"`
	Text        *string          `json:"text"`
	Data        *string          `json:"data"`
	MIME        string           `json:"mimeType"`
	Resource    *resourceContent `json:"resource"`
	URI         string           `json:"uri"`
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
}

type resourceContent struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType"`
	Text *string `json:"text"`
	Blob *string `json:"blob"`
}

// contentParts turns an item of a result into parts. What is of no known form is
// shown as it is.
func contentParts(raw json.RawMessage) []agent.Part {
	var c content
	if jsonrpc.Unmarshal(raw, &c) != nil {
		return []agent.Part{agent.Text(string(raw))}
	}
	switch {
	case c.Type == "text" && c.Text != nil:
		return []agent.Part{agent.Text(*c.Text)}
	case (c.Type == "image" || c.Type == "audio") && c.Data != nil:
		return []agent.Part{media(*c.Data, c.MIME, "")}
	case c.Type == "resource" && c.Resource != nil:
		return c.Resource.parts()
	case c.Type == "resource_link" && c.URI != "":
		return []agent.Part{agent.Text(c.link())}
	}
	return []agent.Part{agent.Text(string(raw))}
}

// link is a resource link in words.
func (c *content) link() string {
	text := "Resource " + c.URI
	if c.Name != "" {
		text += " (" + c.Name + ")"
	}
	if c.MIME != "" {
		text += ", " + c.MIME
	}
	for _, more := range []string{c.Title, c.Description} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// parts is the resource with a line before it that names it.
func (r *resourceContent) parts() []agent.Part {
	title := "Resource " + r.URI
	if r.MIME != "" {
		title += " (" + r.MIME + ")"
	}
	switch {
	case r.Text != nil:
		return []agent.Part{agent.Text(title + ":\n" + *r.Text)}
	case r.Blob != nil:
		return []agent.Part{agent.Text(title + ":"), media(*r.Blob, r.MIME, baseName(r.URI))}
	}
	return []agent.Part{agent.Text(title + " is empty")}
}

// baseName is the last part of a URI's path.
func baseName(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Path == "" || u.Path == "/" {
		return ""
	}
	return path.Base(u.Path)
}

// media decodes data, which some servers write without padding, with line ends
// or for URLs.
func media(data, mime, name string) agent.Part {
	clean := strings.NewReplacer("\n", "", "\r", "", " ", "", "-", "+", "_", "/").Replace(data)
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(clean, "="))
	if err != nil {
		return agent.Text(fmt.Sprintf("[%s of %d bytes that is not valid base64]", mime, len(data)))
	}
	mime = cmp.Or(mime, "application/octet-stream")
	return agent.Part{Kind: agent.PartMedia, MIME: mime, Data: decoded, Name: name}
}

// limit cuts the texts of a result that are longer than MaxOutput together, without
// secrets: a cut could leave a part of one that is not found any more. The whole goes to
// a file in dir if there is one.
func limit(parts []agent.Part, secrets *redact.Redactor, dir, name string) []agent.Part {
	total := 0
	for _, p := range parts {
		total += len(p.Text)
	}
	if total <= MaxOutput {
		return parts
	}
	var all strings.Builder
	var out []agent.Part
	for _, p := range parts {
		if p.Kind != agent.PartText {
			out = append(out, p)
			continue
		}
		if all.Len() > 0 {
			all.WriteByte('\n')
		}
		all.WriteString(p.Text)
	}
	text := secrets.String(all.String())
	if len(text) <= MaxOutput {
		return append([]agent.Part{agent.Text(text)}, out...)
	}
	where := ""
	if dir != "" {
		whole := spool.Output{Dir: dir, Pattern: name + "-*.txt"}
		_, _ = whole.Write([]byte(text)) // never fails
		if file, err := whole.File(); err != nil {
			where = fmt.Sprintf("; it could not be kept: %v", err)
		} else {
			where = "; the whole is in " + file
		}
		whole.Close()
	}
	const half = MaxOutput / 2
	head, tail := strings.ToValidUTF8(text[:half], ""), strings.ToValidUTF8(text[len(text)-half:], "")
	cut := fmt.Sprintf("%s\n[… %d of %d bytes are left out here%s …]\n%s", head, len(text)-len(head)-len(tail), len(text), where, tail)
	return append([]agent.Part{agent.Text(cut)}, out...)
}
