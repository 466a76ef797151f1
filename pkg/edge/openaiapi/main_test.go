package openaiapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/openaiapi"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A model is a provider that is a function of the messages and the tools.
type model func(req *agent.Request, say func(string)) (agent.Message, error)

func (m model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	answer, err := m(req, func(s string) { delta(agent.Delta{Kind: agent.DeltaText, Text: s}) })
	if err == nil && answer.Text() == "wait" {
		<-ctx.Done()
		err = ctx.Err()
	}
	return &agent.Response{Message: answer, Usage: agent.Usage{Requests: 1, InputTokens: 100, CachedTokens: 40, OutputTokens: 10, ReasoningTokens: 3}}, err
}

// says is an answer, shown in pieces of three bytes.
func says(s string) model {
	return func(_ *agent.Request, say func(string)) (agent.Message, error) { return pieces(s, say), nil }
}

func pieces(s string, say func(string)) agent.Message {
	for rest := s; rest != ""; rest = rest[min(3, len(rest)):] {
		say(rest[:min(3, len(rest))])
	}
	return agent.Message{Parts: []agent.Part{agent.Text(s)}}
}

// calls is an answer with calls, given as name, arguments, name, arguments.
func calls(text string, list ...string) agent.Message {
	var m agent.Message
	if text != "" {
		m.Parts = []agent.Part{agent.Text(text)}
	}
	for i := 0; i < len(list); i += 2 {
		m.Calls = append(m.Calls, agent.ToolCall{Name: list[i], Args: list[i+1]})
	}
	return m
}

// seen is what a model sees of the conversation, a line for each message.
func seen(req *agent.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		b.WriteString(string(m.Role) + ":")
		for _, p := range m.Parts {
			if p.Kind == agent.PartMedia {
				b.WriteString(" <" + p.MIME + " " + p.Name + " " + string(p.Data) + ">")
				continue
			}
			b.WriteString(" " + strings.ReplaceAll(p.Text, "\n", "/"))
		}
		for _, c := range m.Calls {
			b.WriteString(" " + c.Name + c.Args)
		}
		for _, r := range m.Results {
			b.WriteString(" " + r.Name + "=" + r.Text())
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

// A host runs agents without files.
type host struct {
	agents []*agent.Agent
	schema string
	err    error

	mu   sync.Mutex
	runs []*runner.Channel
}

func (h *host) Agents() []agent.ToolSpec {
	var list []agent.ToolSpec
	for _, a := range h.agents {
		list = append(list, agent.ToolSpec{Name: a.Slug, Description: a.Announce, Schema: json.RawMessage(h.schema)})
	}
	return list
}

func (h *host) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	if h.err != nil {
		return nil, h.err
	}
	for _, a := range h.agents {
		if a.Slug == slug {
			h.mu.Lock() // before the start: a model may tell a test at once that the run is there
			defer h.mu.Unlock()
			c := (&runner.Runner{Agent: a, Output: schema.Output, Arguments: schema.CompileShape}).Start(ctx, s)
			h.runs = append(h.runs, c)
			return c, nil
		}
	}
	return nil, errors.New("no such agent")
}

// ended returns the status of the run n, once it has ended.
func (h *host) ended(t *testing.T, n int) agent.Status {
	t.Helper()
	h.mu.Lock()
	c := h.runs[n]
	h.mu.Unlock()
	out, _ := c.Wait()
	return out.Status
}

// A server is a Handler with one agent, named helper.
type server struct {
	*httptest.Server
	*host
	handler *openaiapi.Handler
	client  openai.Client
}

func serve(t *testing.T, p agent.Provider, tools ...agent.Tool) *server {
	t.Helper()
	h := &host{agents: []*agent.Agent{{Slug: "helper", Announce: "helps", Provider: p, Toolsets: []agent.Toolset{agent.ToolList(tools)}}}}
	s := &server{host: h, handler: &openaiapi.Handler{Host: h, Linger: time.Millisecond}}
	s.Server = httptest.NewServer(s.handler)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.handler.Close()
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	s.client = openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
	return s
}

// post sends a request, and returns status and body.
func (s *server) post(t *testing.T, path, body string) (int, string, http.Header) {
	t.Helper()
	resp, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, _ = io.Copy(&b, resp.Body)
	return resp.StatusCode, b.String(), resp.Header
}
