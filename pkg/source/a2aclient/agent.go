// Package a2aclient makes a remote agent that supports the Agent2Agent protocol (A2A 1.0) a
// tool.
package a2aclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

// UsageExtension is the URI of the extension by which an agent reports what a task consumed.
// If a request activates it, the metadata of the last status contains an agent.Usage, in JSON,
// under this key.
const UsageExtension = "https://github.com/agents-exe/agents/blob/main/docs/a2a.md#usage"

const (
	maxBody     = 64 << 20 // of one response
	maxCard     = 1 << 20
	maxCost     = 1_000_000 * agent.Dollar // of one task
	dialTime    = 20 * time.Second
	cancelTime  = 5 * time.Second
	cancelWait  = 50 * time.Millisecond
	cancelTries = 20
	pollAtFirst = 500 * time.Millisecond
	pollAtMost  = 10 * time.Second
)

// An Agent is a remote agent as a tool that takes a prompt. A call is a run below the caller's,
// in which the remote agent takes the place of the model. So what the agent consumes is counted,
// if it reports that with UsageExtension. The fields must not be changed once it is in use.
type Agent struct {
	// URL is the URL of the server, or the full address of the agent card.
	URL string
	// Token returns the bearer token, which is sent only to the host of URL; nil sends none.
	Token func() string
	// Name is the name of the tool, Slug the name of the agent, and Description the
	// description that Describe returned.
	Name, Slug  string
	Description string

	mu      sync.Mutex
	public  *http.Transport   // for addresses elsewhere; nil before the first request to one
	client  *a2aclient.Client // nil before the first call
	streams bool
}

// Spec implements agent.Tool.
func (a *Agent) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: a.Name, Description: a.Description, Schema: (&agent.Agent{}).ArgsSchema(), Source: a.URL}
}

// Describe reads the agent card and returns the agent's name and its description, with those
// of its skills.
func (a *Agent) Describe(ctx context.Context) (name, description string, err error) {
	card, err := a.card(ctx)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	b.WriteString(card.Description)
	for _, s := range card.Skills {
		if s.Description != "" && s.Description != card.Description {
			fmt.Fprintf(&b, "\n%s: %s", s.Name, s.Description)
		}
	}
	return card.Name, b.String(), nil
}

func (a *Agent) card(ctx context.Context) (*a2a.AgentCard, error) {
	base, path := a.URL, agentcard.WithPath("/.well-known/agent-card.json")
	if i := strings.LastIndex(base, "/.well-known/"); i >= 0 {
		base, path = base[:i], agentcard.WithPath(base[i:])
	}
	card, err := agentcard.NewResolver(a.web(maxCard, "")).Resolve(ctx, base, path)
	if err != nil {
		return nil, fmt.Errorf("read the agent card: %w", err)
	}
	return card, nil
}

// web is an HTTP client that sends the token to the host of a.URL, activates an extension,
// follows no redirect, and limits responses.
func (a *Agent) web(most int64, extension string) *http.Client {
	return &http.Client{Transport: transport{a, most, extension}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type transport struct {
	agent     *Agent
	most      int64
	extension string // "" for none
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	if t.extension != "" {
		req.Header.Set(a2a.SvcParamExtensions, t.extension)
	}
	own, err := url.Parse(t.agent.URL)
	if err == nil && t.agent.Token != nil && own.Host == req.URL.Host && own.Scheme == req.URL.Scheme {
		if token := t.agent.Token(); token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	if err == nil && !httphost.Directs(req.URL, own) {
		return nil, fmt.Errorf("the agent card directs requests to %s, which is not public and not the address of the agent", req.URL.Host)
	}
	res, err := t.agent.toward(req, own).RoundTrip(req)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, t.most)
	}
	return res, err
}

// toward returns the transport for req. An address other than the configured one, own, must be
// public, also after its name is resolved; a proxy resolves names itself.
func (a *Agent) toward(req *http.Request, own *url.URL) http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok || own == nil || httphost.Same(req.URL, own) {
		return http.DefaultTransport
	}
	if proxy, err := http.ProxyFromEnvironment(req); proxy != nil || err != nil {
		return http.DefaultTransport
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.public == nil {
		a.public = shared.Clone()
		a.public.DialContext = (&net.Dialer{Timeout: dialTime, Control: httphost.Control}).DialContext
	}
	return a.public
}

// connect returns the client for the endpoint that the card names. The card is read without
// the lock: a call that ends early does not wait for the server that another one waits for.
func (a *Agent) connect(ctx context.Context) (*a2aclient.Client, bool, error) {
	a.mu.Lock()
	client, streams := a.client, a.streams
	a.mu.Unlock()
	if client != nil {
		return client, streams, nil
	}
	card, err := a.card(ctx)
	if err != nil {
		return nil, false, err
	}
	extension := ""
	if slices.ContainsFunc(card.Capabilities.Extensions, func(e a2a.AgentExtension) bool { return e.URI == UsageExtension }) {
		extension = UsageExtension
	}
	web := a.web(maxBody, extension)
	client, err = a2aclient.NewFromCard(context.WithoutCancel(ctx), card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(web), a2aclient.WithRESTTransport(web))
	if err != nil {
		return nil, false, fmt.Errorf("the agent offers no supported version and transport of the protocol: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client == nil {
		a.client, a.streams = client, card.Capabilities.Streaming
	}
	return a.client, a.streams, nil
}

// Call implements agent.Tool. Questions of the agent are put to the person.
func (a *Agent) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	t := &task{agent: a, inv: inv}
	sub := &agent.Agent{Slug: a.Slug, Source: a.URL, Provider: t, Model: a.Slug, Flavor: "a2a", NoCompaction: true}
	prompt, err := sub.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return agent.Result{}, err
	}
	return agent.AnswerOf(inv.Run(ctx, sub, prompt))
}

// Generate implements agent.Provider: the last message of req becomes a task.
func (t *task) Generate(ctx context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	var err error
	if t.client, t.streams, err = t.agent.connect(ctx); err != nil {
		return nil, err
	}
	defer t.cancel(ctx)
	fails := func(err error) (*agent.Response, error) { // it may have cost something
		return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: t.usage.OrEstimate(req, nil)}
	}
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(req.Messages[len(req.Messages)-1].Text()))
	for {
		if err := t.send(ctx, message); err != nil {
			return fails(err)
		}
		if t.state != a2a.TaskStateInputRequired {
			break
		}
		answer, err := t.inv.Question(ctx, agent.Event{What: "ask", Text: t.said})
		if err != nil {
			return fails(fmt.Errorf("the agent asks %q: %w", t.said, err))
		}
		text := string(answer)
		_ = json.Unmarshal(answer, &text) // other JSON is sent as it is
		message = a2a.NewMessageForTask(a2a.MessageRoleUser, t, a2a.NewTextPart(text))
	}
	if err := t.failure(); err != nil {
		return fails(err)
	}
	m := agent.Message{Role: agent.RoleAssistant, Parts: partsOf(t.parts())}
	return &agent.Response{Message: m, Finish: agent.FinishStop, Usage: t.usage.OrEstimate(req, &m)}, nil
}

// A task is the state of a task of the agent, as its events report it.
type task struct {
	agent   *Agent
	client  *a2aclient.Client
	streams bool
	inv     *agent.Invocation

	info      a2a.TaskInfo
	state     a2a.TaskState
	said      string // the message of the status
	artifacts []*a2a.Artifact
	answer    *a2a.Message // instead of a task
	usage     agent.Usage
}

// TaskInfo implements a2a.TaskInfoProvider.
func (t *task) TaskInfo() a2a.TaskInfo { return t.info }

// over reports whether the task has ended, or waits for a message.
func (t *task) over() bool {
	return t.answer != nil || t.state.Terminal() || t.state == a2a.TaskStateInputRequired || t.state == a2a.TaskStateAuthRequired
}

// send sends a message and follows the task until it is over.
func (t *task) send(ctx context.Context, m *a2a.Message) error {
	t.state, t.said = a2a.TaskStateUnspecified, ""
	req := &a2a.SendMessageRequest{Message: m}
	if t.streams {
		for e, err := range t.client.SendStreamingMessage(ctx, req) {
			if err != nil && t.info.TaskID != "" {
				break // the task goes on
			}
			if err := t.received(e, err); err != nil {
				return err
			}
		}
	} else if err := t.received(t.client.SendMessage(ctx, req)); err != nil {
		return err
	}
	for wait := pollAtFirst; !t.over(); wait = min(2*wait, pollAtMost) {
		if t.info.TaskID == "" {
			return errors.New("the agent's answer ended early")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if err := t.received(t.client.GetTask(ctx, &a2a.GetTaskRequest{ID: t.info.TaskID})); err != nil {
			return err
		}
	}
	return nil
}

// received records what a request returned.
func (t *task) received(e a2a.Event, err error) error {
	if err != nil {
		return err
	}
	return t.apply(e)
}

// apply records an event. An event of another task is an error, because its answer would belong
// to another question.
func (t *task) apply(e a2a.Event) error {
	if id := e.TaskInfo().TaskID; t.info.TaskID != "" && id != t.info.TaskID && id != "" {
		return fmt.Errorf("the agent reports on the task %q; the call is the task %q", id, t.info.TaskID)
	}
	switch e := e.(type) {
	case *a2a.Message:
		t.answer = e
	case *a2a.Task:
		t.info, t.artifacts = e.TaskInfo(), e.Artifacts
		t.status(e.Status, e.Metadata)
	case *a2a.TaskStatusUpdateEvent:
		t.info = e.TaskInfo()
		t.status(e.Status, e.Metadata)
	case *a2a.TaskArtifactUpdateEvent:
		t.info = e.TaskInfo()
		if e.Artifact != nil {
			t.artifact(e)
		}
	}
	return nil
}

func (t *task) status(s a2a.TaskStatus, metadata map[string]any) {
	if raw, err := json.Marshal(metadata[UsageExtension]); err == nil {
		t.consumed(raw)
	}
	t.state, t.said = s.State, ""
	if s.Message != nil {
		t.said = textOf(s.Message.Parts)
	}
	if t.said != "" && !t.over() {
		t.inv.Progress(t.said)
	}
}

// consumed records the agent's report of what the task has consumed. It ignores impossible
// values.
func (t *task) consumed(report json.RawMessage) {
	var u agent.Usage
	if json.Unmarshal(report, &u) != nil || u.Cost > maxCost || u.ReservedCost > maxCost || u.Priced > u.Requests || !u.Possible() {
		return
	}
	t.usage = u
}

// artifact adds to an artifact, or replaces it.
func (t *task) artifact(e *a2a.TaskArtifactUpdateEvent) {
	for i, known := range t.artifacts {
		if known.ID != e.Artifact.ID {
			continue
		}
		if e.Append {
			known.Parts = append(known.Parts, e.Artifact.Parts...)
		} else {
			t.artifacts[i] = e.Artifact
		}
		return
	}
	t.artifacts = append(t.artifacts, e.Artifact)
}

// parts returns the content of the artifacts, or of the message if there are none.
func (t *task) parts() (parts a2a.ContentParts) {
	if t.answer != nil {
		return t.answer.Parts
	}
	for _, artifact := range t.artifacts {
		parts = append(parts, artifact.Parts...)
	}
	if len(parts) == 0 && t.state == a2a.TaskStateCompleted && t.said != "" {
		parts = a2a.ContentParts{a2a.NewTextPart(t.said)}
	}
	return parts
}

// failure returns why there is no complete answer, with what there is of it; nil if there is
// one.
func (t *task) failure() error {
	switch {
	case t.answer != nil || t.state == a2a.TaskStateCompleted:
		return nil
	case t.state == a2a.TaskStateAuthRequired:
		return fmt.Errorf("the agent requires another sign-in: %s", t.said)
	}
	state := strings.ToLower(strings.TrimPrefix(string(t.state), "TASK_STATE_"))
	text := strings.TrimSuffix(fmt.Sprintf("the task ended with the state %s: %.2000s", state, t.said), ": ")
	if part := textOf(t.parts()); part != "" {
		text += fmt.Sprintf("\nIts answer was cut: %.4000s", part)
	}
	return errors.New(text)
}

// cancel cancels the task if it has not ended. Agents may refuse that for a moment after a
// question, so it tries again while the task is open.
func (t *task) cancel(ctx context.Context) {
	if t.info.TaskID == "" || t.answer != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	for range cancelTries {
		if t.state.Terminal() {
			return
		}
		_, err := t.client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: t.info.TaskID})
		if err == nil || errors.Is(err, a2a.ErrUnsupportedOperation) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(cancelWait):
		}
		got, err := t.client.GetTask(ctx, &a2a.GetTaskRequest{ID: t.info.TaskID})
		if err != nil {
			return // the agent is unreachable
		}
		t.state = got.Status.State
	}
}

// partsOf makes the content of a message or an artifact that of a result.
func partsOf(list a2a.ContentParts) []agent.Part {
	var parts []agent.Part
	text := func(s string) {
		if n := len(parts); n > 0 && parts[n-1].Kind == agent.PartText {
			parts[n-1].Text += s
			return
		}
		parts = append(parts, agent.Text(s))
	}
	for _, p := range list {
		switch c := p.Content.(type) {
		case a2a.Text:
			text(string(c))
		case a2a.Raw:
			parts = append(parts, agent.Part{Kind: agent.PartMedia, MIME: cmp.Or(p.MediaType, "application/octet-stream"), Data: c, Name: p.Filename})
		case a2a.URL:
			text(fmt.Sprintf("\n[file %s at %s]\n", p.Filename, c))
		default:
			if raw, err := json.Marshal(p.Data()); err == nil {
				text(string(raw))
			}
		}
	}
	return parts
}

func textOf(list a2a.ContentParts) string {
	return agent.Result{Parts: partsOf(list)}.Text()
}
