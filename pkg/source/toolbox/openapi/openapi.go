// Package openapi turns the operations of a web service into tools: those that an OpenAPI 3 or
// Swagger 2 document describes, or the tables and functions of a PostgREST server.
//
// [Open] reads the document and returns an agent.Tool for each operation; a call is one
// request. Names and arguments are those of agents-exe: the parameter X is the argument
// p_X, the body is b.
//
// The document is read as plain JSON, and what an operation refers to is looked up when it
// becomes a tool. Of 46 documents (Stripe, GitHub, Kubernetes, Adyen, Plaid and others)
// kin-openapi v0.152.0 rejects five and libopenapi v0.42.3 three, each because of one invalid
// part; this package reads all of them. It reads GitHub's document in 0.2 s with 65 MB;
// kin-openapi takes 2.7 s and 161 MB, libopenapi 0.9 s and 261 MB. The libraries would add
// 1.9 MB and 6.5 MB to the program, and libopenapi two minutes to its build.
package openapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

const (
	maxTools       = 1000
	defaultTimeout = time.Minute
	bodyArg        = "b"
)

// A Box is an opened document.
type Box struct {
	// Tools are its operations.
	Tools agent.ToolList
	// Skipped says which operations cannot be called, and why.
	Skipped []string

	settings   companion.OpenAPI
	doc        *document
	base, from *url.URL // of BaseURL and Document; nil if that is not an address
	home       *url.URL // the only server that gets headers and secrets of the entry
	secrets    []secret
	redact     *redact.Redactor
	client     *http.Client
}

// Open reads the secrets and the document. Commands that print secrets run with environ.
// Requests go through proxy, which is that of an
// http.Transport.
func Open(ctx context.Context, s companion.OpenAPI, environ []string, proxy func(*http.Request) (*url.URL, error)) (*Box, error) {
	b := &Box{settings: s}
	var err error
	if b.base, err = address(s.BaseURL); err == nil && strings.Contains(s.Document, "://") {
		b.from, err = address(s.Document)
	}
	if err != nil {
		return nil, err
	}
	if b.home = b.base; b.home == nil {
		b.home = b.from
	}
	hidden := []string{s.Key, base64.StdEncoding.EncodeToString([]byte(s.Key))}
	for i, entry := range s.Secrets {
		secret, err := openSecret(ctx, entry, environ)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		b.secrets, hidden = append(b.secrets, secret), append(hidden, secret.plain, secret.value)
	}
	b.redact, b.client = redact.New(hidden), b.newClient(proxy)
	permits, err := parseFilter(s.Filter)
	if err != nil {
		return nil, err
	}
	text, err := b.read(ctx)
	if err == nil {
		b.doc, err = parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", b.redact.String(s.Document), b.hide(err))
	}
	b.open(permits)
	switch {
	case len(b.Tools) == 0:
		return nil, fmt.Errorf("%s has no operation that can become a tool: %s", s.Document, slices.Concat(b.Skipped, []string{"check filter and allowedMethods"})[0])
	case len(b.Tools) > maxTools:
		return nil, fmt.Errorf("%s has %d operations, but a toolbox can have at most %d: set a filter", s.Document, len(b.Tools), maxTools)
	}
	return b, nil
}

func address(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the http or https URL of a server", text)
	}
	return u, nil
}

func (b *Box) hide(err error) error { return errors.New(b.redact.String(err.Error())) }

func (b *Box) timeout() time.Duration {
	return cmp.Or(time.Duration(b.settings.TimeoutSeconds*float64(time.Second)), defaultTimeout)
}

func (b *Box) read(ctx context.Context) ([]byte, error) {
	if b.from == nil {
		return os.ReadFile(b.settings.Document)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout())
	defer cancel()
	res, err := b.send(ctx, &operation{method: "GET"}, b.from, &request{header: http.Header{"Accept": {"application/openapi+json, application/json, */*;q=0.5"}}})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := failure(res); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("it is longer than %d bytes", maxDocument)
	}
	return text, err
}

// open makes the tools of the operations that permits takes.
func (b *Box) open(permits filter) {
	all, skipped := b.doc.operations()
	b.Skipped = skipped
	used := map[string]bool{}
	for _, op := range all {
		t := &tool{box: b, op: op, base: b.base, make: op.request}
		if !permits(op) || b.settings.PostgREST && !b.permitted(op) {
			continue
		}
		if t.base == nil {
			var err error
			if t.base, err = b.doc.base(op, b.from); err != nil {
				b.Skipped = append(b.Skipped, fmt.Sprintf("%s %s: %s", op.method, op.path, err))
				continue
			}
		}
		if b.settings.PostgREST {
			b.table(t)
		} else {
			b.operation(t)
		}
		name := t.spec.Name
		for n := 2; used[t.spec.Name]; n++ {
			t.spec.Name = b.name(fmt.Sprintf("%s_%d", name, n))
		}
		used[t.spec.Name] = true
		t.spec.Effects = agent.EffectsOnce
		if slices.Contains(readMethods, op.method) {
			t.spec.Effects = agent.EffectsNone
		} else if op.method == "PUT" {
			t.spec.Effects = agent.EffectsIdempotent
		}
		b.Tools = append(b.Tools, t)
	}
}

var readMethods = []string{"GET", "HEAD", "OPTIONS", "TRACE"}

// name converts a text to part of a tool's name as agents-exe does. It is short enough to
// follow the name of the toolbox.
func (b *Box) name(text string) string {
	text = toolname.Join("", text)
	if c := text[0] | 0x20; c < 'a' || c > 'z' {
		text = "t" + text
	}
	text = strings.Join(slices.DeleteFunc(strings.Split(text, "_"), func(s string) bool { return s == "" }), "_")
	return strings.TrimPrefix(toolname.Join(b.settings.Name, text), b.settings.Name+"_")
}

// operation sets the name, description and schema of the tool for an operation.
func (b *Box) operation(t *tool) {
	op := t.op
	t.spec.Name = b.name(cmp.Or(op.id, "openapi_"+strings.ToLower(op.method)+"_"+op.path))
	t.spec.Description = shorten(cmp.Or(op.about, op.method+" "+op.path), maxAbout)
	used := map[string]bool{}
	for i := range op.parameters {
		p := &op.parameters[i]
		if p.arg = toolname.Join("p", p.name); used[p.arg] {
			p.arg = toolname.Join(p.arg, p.in)
		}
		arg := p.arg
		for n := 2; used[p.arg]; n++ {
			p.arg = toolname.Join(arg, fmt.Sprint(n))
		}
		used[p.arg] = true
	}
	t.spec.Schema = b.doc.bounded(func(e *expander, depth int) any {
		properties, required := map[string]any{}, []string{}
		add := func(arg, about string, must bool, schema any) {
			s := e.schema(schema, depth, nil)
			if about = shorten(about, e.about); about != "" {
				s["description"] = about
			}
			if properties[arg] = s; must {
				required = append(required, arg)
			}
		}
		for _, p := range op.parameters {
			add(p.arg, p.about, p.required, p.schema)
		}
		if op.body != nil {
			add(bodyArg, cmp.Or(op.body.about, "The body, "+op.body.media+"."), op.body.required, op.body.schema)
		}
		return map[string]any{"type": "object", "properties": properties, "required": required}
	})
}

// A tool is one operation.
type tool struct {
	box  *Box
	op   *operation
	base *url.URL
	spec agent.ToolSpec
	make func(args map[string]any) (*request, error)
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool: it sends one request. The result has what the server
// answers; a status that is not a success is an error too.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args map[string]any
	if err := decode([]byte(cmp.Or(inv.Call.Args, "{}")), &args); err != nil {
		return agent.Result{}, fmt.Errorf("nothing was sent: the arguments are not a JSON object: %w", err)
	}
	r, err := t.make(args)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing was sent: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.box.timeout(), fmt.Errorf("no answer within %s", t.box.timeout()))
	defer cancel()
	res, err := t.box.send(ctx, t.op, t.base, r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return agent.Result{}, t.failed(err)
	}
	defer res.Body.Close()
	return t.result(res)
}

func (t *tool) failed(err error) error {
	if err == nil {
		return nil
	}
	return t.box.hide(fmt.Errorf("%s %s: %w", t.op.method, t.op.path, err))
}

// A filter says which operations become tools.
type filter func(op *operation) bool

// parseFilter reads a filter as agents-exe has it: {"tag": "PathPrefix", "contents": "/v1"}.
func parseFilter(data json.RawMessage) (filter, error) {
	if len(data) == 0 || string(data) == "null" {
		return func(*operation) bool { return true }, nil
	}
	var t tagged
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, err
	}
	switch t.Tag {
	case "AlwaysTrue", "AlwaysFalse":
		return func(*operation) bool { return t.Tag == "AlwaysTrue" }, nil
	case "Not":
		inner, err := parseFilter(t.Contents)
		return func(op *operation) bool { return !inner(op) }, err
	case "And", "Or":
		var parts []json.RawMessage
		if json.Unmarshal(t.Contents, &parts) != nil || len(parts) != 2 {
			return nil, errors.New("filter " + t.Tag + ": its contents must be an array of two filters")
		}
		a, err := parseFilter(parts[0])
		b, other := parseFilter(parts[1])
		return func(op *operation) bool {
			if t.Tag == "And" {
				return a(op) && b(op)
			}
			return a(op) || b(op)
		}, errors.Join(err, other)
	}
	arg, err := t.text("filter")
	if err != nil {
		return nil, err
	}
	path := segments(arg)
	match, ok := map[string]filter{
		"PathPrefix": func(op *operation) bool {
			s := segments(op.path)
			return slices.Equal(s[:min(len(s), len(path))], path)
		},
		"PathSuffix": func(op *operation) bool {
			s := segments(op.path)
			return slices.Equal(s[max(0, len(s)-len(path)):], path)
		},
		"PathEqual":         func(op *operation) bool { return slices.Equal(segments(op.path), path) },
		"PathContains":      func(op *operation) bool { return strings.Contains(op.path, arg) },
		"MethodEquals":      func(op *operation) bool { return strings.EqualFold(op.method, arg) },
		"OperationIdEquals": func(op *operation) bool { return op.id == arg },
		"TableNameEquals":   func(op *operation) bool { return strings.Trim(op.path, "/") == arg },
	}[t.Tag]
	if !ok {
		return nil, t.unknown("filter")
	}
	return match, nil
}

// segments are the parts of a path between slashes.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
