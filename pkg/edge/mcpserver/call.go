package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
)

// promptSchema is the schema of every agent's arguments.
const promptSchema = `{"type":"object","properties":{` +
	`"prompt":{"type":"string","description":"what you ask of this agent"},` +
	`"session":{"type":"string","description":"continues the conversation whose session an earlier result named; without it the agent knows of none"}},` +
	`"required":["prompt"],"additionalProperties":false}`

// schema is that of the arguments: the agent's own, or promptSchema.
func (a *Agent) schema() json.RawMessage {
	if a.Agent.InputSchema != nil {
		return a.Agent.InputSchema.Schema
	}
	return json.RawMessage(promptSchema)
}

var errNotServed = errors.New("the request did not come through Serve")

func (s *Server) ask(ctx context.Context, r *request, a Agent) *mcp.CallToolResult {
	q := &question{server: s, agent: a, request: r}
	inv := &agent.Invocation{Call: agent.ToolCall{Name: a.Name, Args: r.message.args}}
	result, err := q.checked(ctx, inv)
	out := &mcp.CallToolResult{Content: s.contents(result.Parts)}
	if err != nil {
		out.IsError = true
		out.Content = append([]mcp.Content{mcp.NewTextContent(s.opts.Hide(err.Error()))}, out.Content...)
	}
	meta := map[string]any{MetaStatus: agent.StatusFailed}
	if q.out != nil {
		meta[MetaStatus], meta[MetaUsage] = q.out.Status, q.out.Total.Usage
	}
	if q.out != nil && q.out.Receipt != nil {
		meta[MetaReceipt] = q.out.Receipt
	}
	if q.out != nil && q.out.Session != "" {
		meta[MetaSession] = q.out.Session
		line := mcp.NewTextContent("session: " + q.out.Session)
		line.Annotations = &mcp.Annotations{Audience: []mcp.Role{mcp.RoleAssistant}}
		out.Content = append(out.Content, line)
	}
	out.Meta = mcp.NewMetaFromMap(meta)
	return out
}

// A question is one call of an agent.
type question struct {
	server  *Server
	agent   Agent
	request *request
	out     *agent.Outcome // nil if nothing ran
}

// checked is Call, with arguments that fit the schema.
func (q *question) checked(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if _, err := inv.Args(); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	if v, ok := agent.As[agent.Validator](schema.Checked(q)); ok {
		if err := v.Validate(ctx, inv); err != nil && ctx.Err() == nil {
			return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
		}
	}
	return q.Call(ctx, inv)
}

// Spec implements agent.Tool.
func (q *question) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: q.agent.Name, Schema: q.agent.schema()}
}

// Call implements agent.Tool. The arguments fit the schema.
func (q *question) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if q.agent.Agent.InputSchema != nil {
		return q.start(ctx, "", json.RawMessage(inv.Call.Args))
	}
	args, err := inv.Args()
	if err != nil {
		return agent.Result{}, err
	}
	var prompt, id string
	if err := json.Unmarshal(args["prompt"], &prompt); err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: the argument prompt: %w", err)
	}
	if strings.TrimSpace(prompt) == "" {
		return agent.Result{}, errors.New("nothing ran: the prompt is empty")
	}
	if raw, ok := args["session"]; ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &id); err != nil {
			return agent.Result{}, fmt.Errorf("nothing ran: the argument session: %w", err)
		}
		if id == "" {
			return agent.Result{}, errors.New("nothing ran: the session has no name; leave the argument out to begin one")
		}
	}
	text, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		return agent.Result{}, err
	}
	return q.start(ctx, id, text)
}

func (q *question) start(ctx context.Context, id string, args json.RawMessage) (agent.Result, error) {
	nobody := false
	start := agent.Start{Args: args, Session: id, Person: &nobody}
	start.Lease.Traceparent = q.request.message.traceparent()
	c, err := q.server.opts.Start(ctx, q.agent.Name, start)
	if err != nil {
		return agent.Result{}, fmt.Errorf("nothing ran: %w", err)
	}
	reporter := q.request.startReporter(ctx)
	for e := range c.Events() {
		reporter.event(e)
	}
	reporter.close()
	out, err := c.Wait()
	q.out = out
	return agent.AnswerOf(out, err)
}

// callTool calls a tool as an agent would: under the policy, with a key of its own
// and with sub-agents below it.
func (s *Server) callTool(ctx context.Context, r *request, tool agent.Tool, round mcp.MultiRoundTripParams) *mcp.CallToolResult {
	spec := tool.Spec()
	args, err := s.answered(spec, r.message.args, round)
	if errors.Is(err, errState) {
		r.fault = invalidParams("%v", err)
	}
	if err != nil {
		return failure("nothing ran: " + err.Error())
	}
	last, err := s.call(ctx, r, tool, args)
	if err == nil {
		result, f := s.written(ctx, r, spec.Name, last.Parts)
		if f != nil {
			r.fault = f
			return failure(f.Message)
		}
		if result != nil {
			return result
		}
	}
	out := &mcp.CallToolResult{Content: s.contents(last.Parts)}
	if err != nil {
		out.IsError = true
		text := "error: " + err.Error()
		if len(out.Content) > 0 {
			text += "\n"
		}
		out.Content = append([]mcp.Content{mcp.NewTextContent(s.opts.Hide(text))}, out.Content...)
	}
	return out
}

// call passes one call of a tool through the gate.
func (s *Server) call(ctx context.Context, r *request, tool agent.Tool, args string) (agent.Result, error) {
	reporter := r.startReporter(ctx)
	defer reporter.close()
	return s.opts.Call(ctx, tool, args, r.message.traceparent(), reporter.event)
}

// contents are parts as the protocol has them. Reasoning is left out.
func (s *Server) contents(parts []agent.Part) []mcp.Content {
	list := []mcp.Content{}
	for _, p := range parts {
		data := base64.StdEncoding.EncodeToString(p.Data)
		switch {
		case p.Kind == agent.PartText:
			list = append(list, mcp.NewTextContent(s.opts.Hide(p.Text)))
		case p.Kind != agent.PartMedia:
		case strings.HasPrefix(p.MIME, "image/"):
			list = append(list, mcp.NewImageContent(data, p.MIME))
		case strings.HasPrefix(p.MIME, "audio/"):
			list = append(list, mcp.NewAudioContent(data, p.MIME))
		default:
			list = append(list, mcp.NewEmbeddedResource(mcp.BlobResourceContents{
				URI: "attachment:" + p.Name, MIMEType: p.MIME, Blob: data}))
		}
	}
	return list
}

func failure(text string) *mcp.CallToolResult { return mcp.NewToolResultError(text) }
