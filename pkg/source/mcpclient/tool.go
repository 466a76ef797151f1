package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// A Tool is a tool of a server. It stays usable over restarts of the server.
type Tool struct {
	set         *Toolset
	name        string // as the server calls it
	spec        agent.ToolSpec
	annotations Annotations
	cached      bool // its definition is from the cache
	task        bool // it can be called only as a task
	call        func(ctx context.Context, c *conn, timer *callTimer, inv *agent.Invocation, args json.RawMessage) (json.RawMessage, error)
	parts       func(raw json.RawMessage) ([]agent.Part, error)
}

// Annotations are what a server claims about a tool. They are hints: a server that is
// not trusted may claim anything.
type Annotations struct {
	Title       string `json:"title"`
	ReadOnly    *bool  `json:"readOnlyHint"`
	Destructive *bool  `json:"destructiveHint"`
	Idempotent  *bool  `json:"idempotentHint"`
	OpenWorld   *bool  `json:"openWorldHint"`
}

func (a *Annotations) effects() agent.Effects {
	switch {
	case a.ReadOnly != nil && *a.ReadOnly:
		return agent.EffectsNone
	case a.Idempotent != nil && *a.Idempotent:
		return agent.EffectsIdempotent
	}
	return ""
}

// Spec implements agent.Tool.
func (t *Tool) Spec() agent.ToolSpec { return t.spec }

// Identity implements agent.Identified. The digest is that of the address of the server, or of
// its command with the folder, either of which may have secrets.
func (t *Tool) Identity() (source, digest string) {
	s := &t.set.server
	sum := sha256.Sum256([]byte(strings.Join(append([]string{s.URL, t.WorkDir(), s.Executable}, s.Args...), "\x00")))
	return t.spec.Source, "sha256:" + hex.EncodeToString(sum[:])
}

// WorkDir implements agent.Located.
func (t *Tool) WorkDir() string {
	if t.set.server.URL != "" {
		return ""
	}
	dir, _ := filepath.Abs(t.set.server.Dir) // "" if the working directory is not known
	return dir
}

// Annotations returns what the server claims about the tool.
func (t *Tool) Annotations() Annotations { return t.annotations }

// Call calls the tool, once: if the server ends meanwhile, the error says so. A
// server that has ended before is started again, and one that refuses the call
// because it has forgotten the session gets it again in a new session. When ctx ends,
// the call is cancelled at the server.
func (t *Tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if _, err := inv.Args(); err != nil {
		return agent.Result{}, fmt.Errorf("nothing was called: %w", err)
	}
	args := json.RawMessage(strings.TrimSpace(inv.Call.Args))
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	ctx, timer, cancel := newCallTimer(ctx, t.set.server.callTimeout())
	defer cancel()
	raw, err := t.try(ctx, timer, inv, args)
	if errors.Is(err, errRefused) {
		raw, err = t.try(ctx, timer, inv, args) // in a new session
	}
	if err != nil {
		return agent.Result{}, t.refused(err, err.Error())
	}
	result, err := t.result(inv, raw)
	if err == nil {
		err = t.changeContext(ctx, inv, raw)
	}
	if err != nil {
		err = t.refused(err, result.Text())
	}
	return result, err
}

// refused adds what a sandbox has refused to the reason why a call failed, of which text
// tells.
func (t *Tool) refused(failure error, text string) error {
	box := t.set.server.Sandbox
	if box == nil {
		return failure
	}
	for _, line := range append(box.Refused(text), t.set.refused()) {
		if !strings.Contains(text, line) { // the end of a server says it already
			failure = fmt.Errorf("%w\n%s", failure, line)
		}
	}
	return failure
}

// try calls the tool on the connection that there is, or a new one.
func (t *Tool) try(ctx context.Context, timer *callTimer, inv *agent.Invocation, args json.RawMessage) (json.RawMessage, error) {
	c, err := t.set.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was called: %w", err)
	}
	if err := t.set.stale(t); err != nil {
		return nil, fmt.Errorf("nothing was called: %w", err)
	}
	raw, err := t.call(ctx, c, timer, inv, args)
	if err != nil {
		return nil, t.set.explain(err)
	}
	return raw, nil
}

// result is what the model sees of a server's answer.
func (t *Tool) result(inv *agent.Invocation, raw json.RawMessage) (agent.Result, error) {
	parts, err := t.parts(raw)
	key := strings.ReplaceAll(cmp.Or(inv.Key, "call"), "/", "_")
	return agent.Result{Parts: limit(parts, t.set.opts.Redact, t.set.opts.SpoolDir, key)}, err
}

// changeContext passes what a result says of the context to the run.
func (t *Tool) changeContext(ctx context.Context, inv *agent.Invocation, raw json.RawMessage) error {
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if !t.set.server.Context || len(inv.Context) == 0 || json.Unmarshal(raw, &r) != nil || r.Meta[MetaContext] == nil {
		return nil
	}
	return inv.SetContext(context.WithoutCancel(ctx), r.Meta[MetaContext])
}

// errTool says that the tool itself reports a failure; the parts of the result
// say which.
var errTool = errors.New("the tool reports a failure")

func (t *Tool) callTool(ctx context.Context, c *conn, timer *callTimer, inv *agent.Invocation, args json.RawMessage) (json.RawMessage, error) {
	params := map[string]any{"name": t.name, "arguments": args}
	if t.task && !c.modern() {
		params["task"] = struct{}{}
	}
	return c.invoke(ctx, timer, inv, mcp.MethodToolsCall, params)
}

func toolParts(raw json.RawMessage) ([]agent.Part, error) {
	var r callResult
	if err := jsonrpc.Unmarshal(raw, &r); err != nil {
		return []agent.Part{agent.Text(string(raw))}, misfit(err)
	}
	if r.IsError {
		return r.parts(raw), errTool
	}
	return r.parts(raw), nil
}
