package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// A definition is a tool as the server describes it.
type definition struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"inputSchema"`
	Annotations Annotations     `json:"annotations"`
	Execution   struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// A listing is what a server says of its tools, as it came.
type listing struct {
	tools        []json.RawMessage
	resources    bool   // it has some
	headers      bool   // arguments may travel as HTTP headers
	protocol     string // the version that was spoken
	instructions string
}

// list asks c for its tools. A listing and an error may both come back: what
// there is of a list then counts.
func (c *conn) list(ctx context.Context) (*listing, error) {
	raw, err := c.toolPages(ctx)
	if err != nil {
		err = fmt.Errorf("list its tools: %w", err)
		if len(raw) == 0 {
			return nil, err
		}
	}
	l := &listing{tools: raw, headers: c.headersMatter(), protocol: c.protocol(), instructions: c.instructions}
	if l.headers {
		c.rememberHeaders(raw)
	}
	if c.caps.Resources != nil {
		entries, resourceErr := c.resources(ctx)
		if resourceErr != nil {
			err = errors.Join(err, fmt.Errorf("list its resources: %w", resourceErr))
		}
		l.resources = len(entries) > 0
	}
	return l, err
}

// clean removes secrets from l: the model gets it, and the cache keeps it.
func (s *Toolset) clean(l *listing) {
	for i, tool := range l.tools {
		l.tools[i] = s.opts.Redact.Bytes(tool)
	}
	l.instructions = s.opts.Redact.String(l.instructions)
}

// rememberHeaders keeps the tools whose arguments may travel as headers.
func (c *conn) rememberHeaders(tools []json.RawMessage) {
	byName := map[string]json.RawMessage{}
	for _, raw := range tools {
		var d definition
		if bytes.Contains(raw, []byte("x-mcp-header")) && jsonrpc.Unmarshal(raw, &d) == nil {
			byName[d.Name] = raw
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headerTools = byName
}

// offer makes tools of l, sorted by name. Tools that cannot be used are problems;
// the others work.
func (s *Toolset) offer(l *listing) (tools []agent.Tool, problems []error) {
	var all []*Tool
	for i, item := range l.tools {
		t, err := s.define(item)
		if err == nil && l.headers {
			err = badHeaders(item)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("tool %d of its list is left out: %w", i+1, err))
			continue
		}
		all = append(all, t)
	}
	if l.resources {
		all = append(all, slices.DeleteFunc(s.resourceTools(), func(r *Tool) bool {
			return slices.ContainsFunc(all, func(t *Tool) bool { return t.spec.Name == r.spec.Name })
		})...)
	}
	all, more := s.choose(all)
	problems = append(problems, more...)
	slices.SortStableFunc(all, func(a, b *Tool) int { return strings.Compare(a.spec.Name, b.spec.Name) })
	for _, t := range all {
		tools = append(tools, t)
	}
	return tools, problems
}

// maxProblems is how many problems of a list are reported.
const maxProblems = 10

func joinProblems(problems []error) error {
	if more := len(problems) - maxProblems; more > 0 {
		problems = append(problems[:maxProblems:maxProblems], fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}

func (c *conn) toolPages(ctx context.Context) ([]json.RawMessage, error) {
	if c.caps.Tools == nil && (c.caps.Resources != nil || c.caps.Prompts != nil) {
		return nil, nil // it says what it has, and has no tools
	}
	items, err := c.pages(ctx, mcp.MethodToolsList, "tools", MaxTools)
	var refused *rpcError
	if c.caps.Tools == nil && errors.As(err, &refused) && refused.answered.Code == mcp.METHOD_NOT_FOUND {
		return nil, nil
	}
	return items, err
}

// badHeaders is why a client must not offer a tool over HTTP from 2026-07-28 on: its
// arguments cannot be sent as headers (SEP-2243).
func badHeaders(raw json.RawMessage) error {
	var t mcp.Tool
	if json.Unmarshal(raw, &t) != nil {
		return nil // what the library cannot read has no headers for it either
	}
	return mcp.ValidateParamHeaderAnnotations(&t)
}

func (s *Toolset) define(raw json.RawMessage) (*Tool, error) {
	var d definition
	if err := jsonrpc.Unmarshal(raw, &d); err != nil {
		return nil, unreadable(raw, err)
	}
	if d.Name == "" {
		return nil, errors.New("it has no name")
	}
	if len(d.Schema) == 0 || string(d.Schema) == "null" {
		d.Schema = json.RawMessage(`{"type":"object"}`)
	}
	if bytes.TrimLeft(d.Schema, " \t\r\n")[0] != '{' {
		return nil, fmt.Errorf("%s: its inputSchema is not an object: %s", printable(d.Name), clip(string(d.Schema), 100))
	}
	t := &Tool{set: s, name: d.Name, task: d.Execution.TaskSupport == "required", annotations: d.Annotations, parts: toolParts}
	t.call = t.callTool
	t.spec = agent.ToolSpec{
		Name: s.opts.name(s.server.Name, d.Name), Description: describe(&d), Schema: d.Schema,
		Source: "tool " + printable(d.Name) + " of " + cmp.Or(s.server.Called, "MCP server") + " " + s.server.Name, Effects: d.Annotations.effects(),
	}
	return t, nil
}

// printable is a name that a server chose, as a line may show it.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	return clip(name, 100)
}

// unreadable says what is wrong with the form of a tool.
func unreadable(raw json.RawMessage, err error) error {
	what := "it is not a tool"
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		what = fmt.Sprintf("its %s is a %s", kind.Field, kind.Value)
	}
	return fmt.Errorf("%s: %s", what, clip(string(raw), 100))
}

// describe is the description for the model: a title where there is none.
func describe(d *definition) string {
	for _, text := range []string{d.Description, d.Title, d.Annotations.Title} {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// choose keeps the tools that are allowed and whose names can be used.
func (s *Toolset) choose(all []*Tool) (chosen []*Tool, problems []error) {
	used := make([]bool, len(s.server.Tools))
	byName := map[string][]string{}
	for _, t := range all {
		if !s.allowed(t.name, used) {
			continue
		}
		if name := t.spec.Name; !toolname.Valid(name) || len(name) > toolname.Max {
			problems = append(problems, fmt.Errorf("tool %q is left out: %q is not a valid name for a tool, which has 1 to 64 letters, digits, _ and -", clip(t.name, 100), clip(t.spec.Name, 100)))
			continue
		}
		byName[t.spec.Name] = append(byName[t.spec.Name], t.name)
		chosen = append(chosen, t)
	}
	chosen = slices.DeleteFunc(chosen, func(t *Tool) bool {
		same := byName[t.spec.Name]
		if len(same) > 1 && same[0] == t.name {
			problems = append(problems, fmt.Errorf("its tools %s would all be named %s and are left out", clip(fmt.Sprintf("%q", same), 300), t.spec.Name))
			byName[t.spec.Name] = append([]string{""}, same[1:]...) // said once
		}
		return len(same) > 1
	})
	for i, pattern := range s.server.Tools {
		if !used[i] {
			problems = append(problems, fmt.Errorf("none of its tools is named %q", pattern))
		}
	}
	return chosen, problems
}

// allowed reports whether the tool may be offered, and marks the patterns that
// name it.
func (s *Toolset) allowed(name string, used []bool) bool {
	if len(s.server.Tools) == 0 {
		return true
	}
	any := false
	for i, pattern := range s.server.Tools {
		if match, err := path.Match(pattern, name); pattern == name || err == nil && match {
			used[i], any = true, true
		}
	}
	return any
}
