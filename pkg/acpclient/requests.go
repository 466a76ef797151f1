package acpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/jsonrpc"
)

// Files are the files of the client.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, content []byte) error
}

// A request is one of the program about which a call decides.
type request struct {
	kind, args string // of the call
	toModel    bool   // it has become a call
	allowed    bool   // it is part of a call that a person has allowed
	// run is the call. It calls answer once.
	run    func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
	answer func(result any, err error)
	// refusal is the answer if the call does not run; nil is an error.
	refusal any
}

// A grant is a permission that a person has given: it covers one further request for the
// same action, and requests to read its files.
type grant struct {
	kind, command string
	paths         []string
	used          bool
}

// request answers a request of the program.
func (t *talk) request(method string, params json.RawMessage) acp.Answer {
	switch method {
	case acp.MethodPermission:
		return acp.With(params, t.permission)
	case acp.MethodElicit:
		return acp.With(params, t.elicit)
	case acp.MethodTerminal:
		return acp.With(params, t.createTerminal)
	case acp.MethodTerminalOutput, acp.MethodTerminalWait, acp.MethodTerminalKill, acp.MethodTerminalEnd:
		return acp.With(params, func(ctx context.Context, r *acp.TerminalRequest) (any, error) { return t.useTerminal(ctx, method, r) })
	}
	switch {
	case t.agent.Files == nil:
	case method == acp.MethodRead:
		return acp.With(params, t.read)
	case method == acp.MethodWrite:
		return acp.With(params, t.write)
	}
	return nil
}

// errNoPrompt answers requests outside of a prompt, about which no call can decide.
var errNoPrompt = errors.New("no prompt is in progress")

// decided makes r a call, and waits until the call has answered it.
func (t *talk) decided(ctx context.Context, r *request) (any, error) {
	type answer struct {
		result any
		err    error
	}
	answers := make(chan answer, 1)
	r.answer = func(result any, err error) { answers <- answer{result, err} }
	t.mu.Lock()
	t.asks++
	id := fmt.Sprintf("call_%d", t.asks)
	over := t.err != nil || !t.running
	if !over {
		t.asked[id] = r
		t.change()
	}
	changed := t.changed
	t.mu.Unlock()
	for !over {
		select {
		case a := <-answers:
			return a.result, a.err
		case <-changed:
			t.mu.Lock()
			changed, over = t.changed, t.err != nil || !t.running
			t.mu.Unlock()
		case <-ctx.Done(): // the program cancelled the request
			over = true
		}
	}
	t.mu.Lock()
	delete(t.asked, id)
	t.mu.Unlock()
	return nil, errNoPrompt
}

// refuse refuses the requests whose calls did not run. results are those of the calls.
func (t *talk) refuse(results []agent.ToolResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.asked {
		if !r.toModel {
			continue
		}
		delete(t.asked, id)
		if r.refusal != nil {
			r.answer(r.refusal, nil)
			continue
		}
		why := "not permitted"
		for _, result := range results {
			if result.CallID == id {
				why = cmp.Or(result.Text(), why)
			}
		}
		r.answer(nil, errors.New(why))
	}
}

// permission answers session/request_permission.
func (t *talk) permission(ctx context.Context, p *acp.PermissionRequest) (any, error) {
	t.mu.Lock()
	c := t.note(&p.ToolCall.Call, p.ToolCall.Content)
	r := &request{kind: c.kind(), args: c.args(), refusal: choose(p.Options, acp.RejectOnce, acp.RejectAlways)}
	g := c.grant()
	t.mu.Unlock()
	r.run = func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		if inv.Asked {
			t.mu.Lock()
			t.grants = append(t.grants, g)
			t.mu.Unlock()
		}
		r.answer(choose(p.Options, acp.AllowOnce, acp.AllowAlways), nil)
		return t.follow(ctx, c)
	}
	result, err := t.decided(ctx, r)
	if err != nil {
		return acp.Choose(""), nil
	}
	return result, nil
}

// choose chooses the first option of one of the kinds, which are in the order of preference.
func choose(options []acp.Option, kinds ...string) acp.PermissionResponse {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return acp.Choose(o.ID)
			}
		}
	}
	return acp.Choose("")
}

// grant is what a permission for c covers.
func (c *call) grant() *grant {
	g := &grant{kind: c.kind()}
	for _, l := range c.Locations {
		g.paths = append(g.paths, l.Path)
	}
	var input struct {
		Path     string `json:"path"`
		FilePath string `json:"file_path"`
	}
	_ = json.Unmarshal(c.RawInput, &input) // other input names no file
	g.paths = append(g.paths, input.Path, input.FilePath)
	g.command = commandLine(c.RawInput)
	return g
}

// commandLine is the command in the arguments of a call, with its arguments.
func commandLine(args json.RawMessage) string {
	var input struct {
		Command any      `json:"command"`
		Args    []string `json:"args"`
	}
	_ = json.Unmarshal(args, &input) // it has no command otherwise
	words := []string{}
	if list, ok := input.Command.([]any); ok {
		for _, word := range list {
			words = append(words, fmt.Sprint(word))
		}
	} else if line, ok := input.Command.(string); ok {
		words = append(words, line)
	}
	return strings.Join(append(words, input.Args...), " ")
}

// granted reports whether a permission covers r, for the file at path or a command.
func (t *talk) granted(r *request, path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := commandLine(json.RawMessage(r.args))
	for _, g := range t.grants {
		switch {
		case r.kind == "read" && slices.Contains(g.paths, path):
			return true
		case g.used || r.kind != g.kind:
		case path != "" && slices.Contains(g.paths, path), path == "" && line != "" && line == g.command:
			g.used = true
			return true
		}
	}
	return false
}

// read answers fs/read_text_file.
func (t *talk) read(ctx context.Context, p *acp.FileRequest) (any, error) {
	args := map[string]any{"path": p.Path}
	if p.Line > 0 {
		args["line"] = p.Line
	}
	if p.Limit != nil {
		args["limit"] = *p.Limit
	}
	r := &request{kind: "read", args: string(acp.Raw(args))}
	r.run = func(context.Context, *agent.Invocation) (agent.Result, error) {
		content, err := t.agent.Files.Read(p.Path)
		if err != nil {
			return agent.Result{}, answered(r, nil, err)
		}
		text := strings.ToValidUTF8(string(content), "\uFFFD")
		if p.Line > 1 || p.Limit != nil {
			lines := strings.SplitAfter(text, "\n")
			lines = lines[min(max(p.Line-1, 0), len(lines)):]
			if p.Limit != nil {
				lines = lines[:min(max(*p.Limit, 0), len(lines))]
			}
			text = strings.Join(lines, "")
		}
		return agent.TextResult(text), answered(r, acp.FileResponse{Content: text}, nil)
	}
	r.allowed = t.granted(r, p.Path)
	return t.decided(ctx, r)
}

// write answers fs/write_text_file.
func (t *talk) write(ctx context.Context, p *acp.FileRequest) (any, error) {
	r := &request{kind: "edit", args: string(acp.Raw(map[string]string{"path": p.Path, "content": p.Content}))}
	r.run = func(context.Context, *agent.Invocation) (agent.Result, error) {
		err := t.agent.Files.Write(p.Path, []byte(p.Content))
		return agent.TextResult(fmt.Sprintf("wrote %d bytes to %s", len(p.Content), p.Path)), answered(r, acp.Flag{}, err)
	}
	r.allowed = t.granted(r, p.Path)
	return t.decided(ctx, r)
}

// answered answers r, and returns err.
func answered(r *request, result any, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.answer(nil, jsonrpc.Errorf(acp.NotFound, "%v", err))
	default:
		r.answer(result, err)
	}
	return err
}

// elicit shows a form to the person.
func (t *talk) elicit(ctx context.Context, r *acp.ElicitRequest) (any, error) {
	reply, err := t.inv.Host.Question(ctx, t.inv, agent.Event{What: "elicit", Tool: t.agent.Slug, Text: r.Message, Schema: r.Schema})
	answer := acp.ElicitResponse{Action: "decline"}
	if r.Mode == "form" && err == nil && (json.Unmarshal(reply, &answer) != nil || answer.Action == "") {
		return nil, errors.New("the answer is not valid")
	}
	return answer, nil
}
