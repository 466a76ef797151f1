package acpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// Files are the files of the client.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, content []byte) error
}

// A request is a request of the program that needs a decision: it becomes a tool call.
type request struct {
	id, kind, args string // of the call
	toModel        bool   // it has become a call
	allowed        bool   // an earlier permission covers it
	// run performs the call. It calls answer.
	run func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
	// refusal is the answer if the call does not run; if it is nil, the error of the call is.
	refusal any

	answered chan struct{} // closed by answer
	result   any
	err      error
}

// answer answers r. It is called once.
func (r *request) answer(result any, err error) {
	r.result, r.err = result, err
	close(r.answered)
}

// request returns the Answer to a request of the program, nil for an unknown method.
func (t *talk) request(method string, params json.RawMessage) acp.Answer {
	answer := t.known(method, params)
	var of acp.SessionID
	if answer != nil && json.Unmarshal(params, &of) == nil && !t.is(of.SessionID) && (method != acp.MethodElicit || of.SessionID != "") {
		return func(context.Context) (any, error) {
			return nil, jsonrpc.Errorf(acp.InvalidParams, "sessionId: there is no session %.100q", of.SessionID)
		}
	}
	return answer
}

func (t *talk) known(method string, params json.RawMessage) acp.Answer {
	switch method {
	case acp.MethodPermission:
		return acp.With(params, t.permission)
	case acp.MethodElicit:
		return acp.With(params, t.elicit)
	case acp.MethodTerminal:
		return acp.With(params, t.createTerminal)
	case acp.MethodTerminalOutput, acp.MethodTerminalWait, acp.MethodTerminalKill, acp.MethodTerminalEnd:
		return acp.With(params, func(ctx context.Context, r *acp.TerminalRequest) (any, error) { return t.useTerminal(ctx, method, r) })
	case acp.MethodRead:
		return acp.With(params, t.read)
	case acp.MethodWrite:
		return acp.With(params, t.write)
	}
	return nil
}

// is reports whether id is the session of the call, the only one.
func (t *talk) is(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return id == t.session && id != ""
}

// errNoPrompt answers requests outside of a prompt: they cannot become calls.
var errNoPrompt = errors.New("no prompt is in progress")

// decided makes r a call and waits for its answer.
func (t *talk) decided(ctx context.Context, r *request) (any, error) {
	r.answered = make(chan struct{})
	t.mu.Lock()
	t.asks++
	r.id = fmt.Sprintf("call_%d", t.asks)
	over := t.err != nil || !t.running
	if !over {
		t.asked = append(t.asked, r)
		t.change()
	}
	changed := t.changed
	t.mu.Unlock()
	for !over {
		select {
		case <-r.answered:
			return r.result, r.err
		case <-changed:
			t.mu.Lock()
			changed, over = t.changed, t.err != nil || !t.running
			t.mu.Unlock()
		case <-ctx.Done(): // the program cancelled the request
			over = true
		}
	}
	t.mu.Lock()
	t.asked = slices.DeleteFunc(t.asked, func(other *request) bool { return other == r })
	t.mu.Unlock()
	return nil, errNoPrompt
}

// refuse refuses the requests whose calls did not run. results are the results of the calls.
func (t *talk) refuse(results []agent.ToolResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.asked {
		i := slices.IndexFunc(results, func(result agent.ToolResult) bool { return result.CallID == r.id })
		switch {
		case !r.toModel:
		case r.refusal != nil || i < 0:
			r.answer(r.refusal, nil)
		default:
			r.answer(nil, errors.New(results[i].Text()))
		}
	}
	t.asked = slices.DeleteFunc(t.asked, func(r *request) bool { return r.toModel })
}

// permission answers session/request_permission.
func (t *talk) permission(ctx context.Context, p *acp.PermissionRequest) (any, error) {
	t.mu.Lock()
	c := t.note(&p.ToolCall.Call, p.ToolCall.Content)
	r := &request{kind: c.kind(), args: c.args(), refusal: choose(p.Options, acp.RejectOnce, acp.RejectAlways)}
	actions := c.actions()
	t.mu.Unlock()
	r.run = func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		if inv.Asked {
			t.mu.Lock()
			for _, a := range actions {
				t.grants[a]++
			}
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

// choose returns the first option of one of the kinds, in order of preference.
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

// actions returns what a permission for c covers: the action itself, and reads of its files.
func (c *call) actions() []string {
	var input struct {
		Path     string   `json:"path"`
		FilePath string   `json:"file_path"`
		Command  string   `json:"command"`
		Args     []string `json:"args"`
	}
	_ = json.Unmarshal(c.RawInput, &input) // other input covers nothing
	list := []string{c.kind() + " " + words(input.Command, input.Args)}
	paths := []string{input.Path, input.FilePath}
	for _, l := range c.Locations {
		paths = append(paths, l.Path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		list = append(list, c.kind()+" "+path, "read "+path)
	}
	return list
}

// words returns a command and its arguments as one string, to compare them.
func words(command string, args []string) string {
	return strings.Join(append([]string{command}, args...), "\x00")
}

// granted reports whether an earlier permission covers an action. A permission covers any
// number of reads, but each other action once.
func (t *talk) granted(kind, action string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := kind + " " + action
	if t.grants[key] == 0 || action == "" {
		return false
	}
	if kind != "read" {
		t.grants[key]--
	}
	return true
}

// read answers fs/read_text_file.
func (t *talk) read(ctx context.Context, p *acp.FileRequest) (any, error) {
	return t.file(ctx, "read", p, func() (string, any, error) {
		content, err := t.agent.Files.Read(p.Path)
		text := strings.ToValidUTF8(string(content), "\uFFFD")
		if p.Line > 1 || p.Limit != nil {
			lines := strings.SplitAfter(text, "\n")
			lines = lines[min(max(p.Line-1, 0), len(lines)):]
			if p.Limit != nil {
				lines = lines[:min(max(*p.Limit, 0), len(lines))]
			}
			text = strings.Join(lines, "")
		}
		return text, map[string]string{"content": text}, err
	})
}

// write answers fs/write_text_file.
func (t *talk) write(ctx context.Context, p *acp.FileRequest) (any, error) {
	if p.Content == nil {
		return nil, jsonrpc.Errorf(acp.InvalidParams, "content: it is missing")
	}
	return t.file(ctx, "edit", p, func() (string, any, error) {
		err := t.agent.Files.Write(p.Path, []byte(*p.Content))
		return "", acp.Flag{}, err
	})
}

// file makes do, an access to a file, a call.
func (t *talk) file(ctx context.Context, kind string, p *acp.FileRequest, do func() (text string, result any, err error)) (any, error) {
	p.SessionID = ""
	r := &request{kind: kind, args: string(acp.Raw(p)), allowed: t.granted(kind, p.Path)}
	r.run = func(context.Context, *agent.Invocation) (agent.Result, error) {
		text, result, err := do()
		if errors.Is(err, fs.ErrNotExist) {
			err = jsonrpc.Errorf(acp.NotFound, "%v", err)
		}
		r.answer(result, err)
		return agent.TextResult(text), err
	}
	return t.decided(ctx, r)
}

// elicit shows a form to the person.
func (t *talk) elicit(ctx context.Context, r *acp.ElicitRequest) (any, error) {
	reply, err := t.inv.Caller.Question(ctx, t.inv, agent.Event{What: "elicit", Tool: t.agent.Slug, Text: r.Message, Schema: r.Schema})
	answer := acp.ElicitResponse{Action: "decline"}
	if r.Mode == "form" && err == nil && (json.Unmarshal(reply, &answer) != nil || answer.Action == "") {
		return nil, errors.New("the answer is not valid")
	}
	return answer, nil
}
