package agentfile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/anthropic"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/provider/responses"
	"github.com/agents-exe/agents/pkg/provider/unparsed"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// TestServersSettingsOfAModel: those of the agent file stay the limit.
func TestServersSettingsOfAModel(t *testing.T) {
	warm, cold := 1.0, 0.2
	for name, c := range map[string]struct {
		own, want openai.Provider
		asked     mcpclient.Sampling
	}{
		"none":               {openai.Provider{}, openai.Provider{}, mcpclient.Sampling{}},
		"tokens":             {openai.Provider{}, openai.Provider{Settings: modelhttp.Settings{MaxOutputTokens: 9}}, mcpclient.Sampling{MaxTokens: 9}},
		"fewer tokens":       {openai.Provider{Settings: modelhttp.Settings{MaxOutputTokens: 10}}, openai.Provider{Settings: modelhttp.Settings{MaxOutputTokens: 9}}, mcpclient.Sampling{MaxTokens: 9}},
		"more tokens":        {openai.Provider{Settings: modelhttp.Settings{MaxOutputTokens: 8}}, openai.Provider{Settings: modelhttp.Settings{MaxOutputTokens: 8}}, mcpclient.Sampling{MaxTokens: 9}},
		"a temperature":      {openai.Provider{Settings: modelhttp.Settings{Temperature: &warm}}, openai.Provider{Settings: modelhttp.Settings{Temperature: &cold}}, mcpclient.Sampling{Temperature: 0.2}},
		"one that is unsure": {openai.Provider{}, openai.Provider{}, mcpclient.Sampling{Temperature: 0.2}},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.own
			got := limited(&unparsed.Provider{Provider: &provider.Retry{Provider: &prices.Provider{Provider: &c.own}, MaxRetries: 7}}, c.asked).(*provider.Retry)
			p := got.Provider.(*prices.Provider).Provider.(*openai.Provider)
			if p.MaxOutputTokens != c.want.MaxOutputTokens || fmt.Sprint(value(p.Temperature)) != fmt.Sprint(value(c.want.Temperature)) || got.MaxRetries != 7 {
				t.Errorf("%d tokens at %v, %d retries", p.MaxOutputTokens, value(p.Temperature), got.MaxRetries)
			}
			if c.own.MaxOutputTokens != before.MaxOutputTokens || c.own.Temperature != before.Temperature {
				t.Error("the agent's own model was changed")
			}
		})
	}
}

// The settings count whatever protocol the model speaks.
func TestServersSettingsOfAModelOfAnthropic(t *testing.T) {
	own := &anthropic.Provider{ContextTokens: 7}
	got := limited(&provider.Retry{Provider: &prices.Provider{Provider: own}}, mcpclient.Sampling{MaxTokens: 9}).(*provider.Retry)
	p, ok := got.Provider.(*prices.Provider).Provider.(*anthropic.Provider)
	if !ok || p.MaxOutputTokens != 9 || p.ContextTokens != 7 || own.MaxOutputTokens != 0 {
		t.Errorf("%+v of %+v", p, own)
	}
}

func TestServersSettingsOfAModelOfResponses(t *testing.T) {
	own := &responses.Provider{OutputAlone: true}
	got := limited(&provider.Retry{Provider: &prices.Provider{Provider: own}}, mcpclient.Sampling{MaxTokens: 9}).(*provider.Retry)
	p, ok := got.Provider.(*prices.Provider).Provider.(*responses.Provider)
	if !ok || p.MaxOutputTokens != 9 || !p.OutputAlone || own.MaxOutputTokens != 0 {
		t.Errorf("%+v of %+v", p, own)
	}
}

func value(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

// modelFunc is a model that is a function.
type modelFunc func(req *agent.Request) (*agent.Response, error)

func (f modelFunc) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	return f(req)
}

// sampler is a tool that asks the model of n, as a server does during its call.
type sampler struct {
	n       *Node
	request mcpclient.Sampling
	got     mcpclient.Sampled
	err     error
}

func (s *sampler) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "sampler", Schema: json.RawMessage(`{}`)}
}

func (s *sampler) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	s.request.Call = inv
	s.got, s.err = s.n.sample(ctx, s.request)
	return agent.TextResult("done"), nil
}

func said(role agent.Role, text string) agent.Message {
	return agent.Message{Role: role, Parts: []agent.Part{agent.Text(text)}}
}

// TestModelAnswersAServer: with what the server gave and nothing else, under the
// run's limits, and counted.
func TestModelAnswersAServer(t *testing.T) {
	a := &agent.Agent{Slug: "root", System: "secret instructions", Model: "m"}
	finish := agent.FinishStop
	a.Provider = modelFunc(func(req *agent.Request) (*agent.Response, error) {
		if req.Agent == "root" && req.Turn == 1 {
			return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "1", Name: "sampler", Args: "{}"}}}}, nil
		}
		text := fmt.Sprintf("%s|%s|%d messages|%d tools", req.Agent, req.System, len(req.Messages), len(req.Tools))
		return &agent.Response{Message: said(agent.RoleAssistant, text), Finish: finish, Usage: agent.Usage{OutputTokens: 3}}, nil
	})
	s := &sampler{n: &Node{Agent: a}, request: mcpclient.Sampling{Server: "My Server", System: "Be brief.",
		Messages: []agent.Message{said(agent.RoleUser, "1"), said(agent.RoleAssistant, "2"), said(agent.RoleUser, "3")}}}
	a.Toolsets = []agent.Toolset{agent.ToolList{s}}
	run := func(depth int) *agent.Outcome {
		out, err := (&runner.Runner{Agent: a, MaxDepth: depth}).Run(t.Context(), agent.UserText("go"))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run(1)
	if want := "mcp_My_Server|Be brief.|3 messages|0 tools"; s.err != nil || s.got.Message.Text() != want || s.got.Model != "m" {
		t.Errorf("the server gets %q of %s, %v; want %q", s.got.Message.Text(), s.got.Model, s.err, want)
	}
	if out.Total.Usage.Requests != 3 || out.Total.Agents["mcp_My_Server"].OutputTokens != 3 {
		t.Errorf("spent is %+v, want the server's request in it", out.Total)
	}
	if run(-1); s.err == nil || !strings.Contains(s.err.Error(), "nested") {
		t.Errorf("beyond the depth limit: %v", s.err)
	}
	s.request.Messages = s.request.Messages[:2]
	if run(1); s.err == nil || !strings.Contains(s.err.Error(), "the last message must be one of the user") {
		t.Errorf("a request that ends with the model's words: %v", s.err)
	}
	s.request.Messages = []agent.Message{said("system", "x"), said(agent.RoleUser, "3")}
	if run(1); s.err == nil || !strings.Contains(s.err.Error(), `message 1 has the role "system"`) {
		t.Errorf("a role that there is not: %v", s.err)
	}
	if _, err := s.n.sample(t.Context(), mcpclient.Sampling{Messages: []agent.Message{said(agent.RoleUser, "3")}}); err == nil {
		t.Error("a request outside any call was answered")
	}
}

func TestCutAnswerForAServer(t *testing.T) {
	a := &agent.Agent{Slug: "root", Model: "m"}
	a.Provider = modelFunc(func(req *agent.Request) (*agent.Response, error) {
		switch {
		case req.Agent != "root":
			return &agent.Response{Message: said(agent.RoleAssistant, "half an ans"), Finish: agent.FinishLength}, nil
		case req.Turn == 1:
			return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{ID: "1", Name: "sampler", Args: "{}"}}}}, nil
		}
		return &agent.Response{Message: said(agent.RoleAssistant, "done")}, nil
	})
	s := &sampler{n: &Node{Agent: a}, request: mcpclient.Sampling{Server: "s", MaxTokens: 4, Messages: []agent.Message{said(agent.RoleUser, "3")}}}
	a.Toolsets = []agent.Toolset{agent.ToolList{s}}
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if s.err != nil || s.got.Finish != agent.FinishLength || s.got.Message.Text() != "half an ans" {
		t.Errorf("the server gets %q, %s, %v; want what there was, cut", s.got.Message.Text(), s.got.Finish, s.err)
	}
}

func TestRoots(t *testing.T) {
	for name, c := range map[string]struct {
		roots []string
		want  string
	}{
		"none":  {nil, "[]"},
		"named": {[]string{"a", "/b"}, "[/files/a /b]"},
	} {
		l := &loader{}
		s := server{dir: "/files"}
		s.Roots = c.roots
		opts := l.clientOptions(&Node{workDir: "/work"}, &s)
		if got := fmt.Sprint(opts.Roots); got != c.want {
			t.Errorf("%s: roots are %s, want %s", name, got, c.want)
		}
	}
}

func TestServersSettingsOfSeveralModels(t *testing.T) {
	own := &provider.Fallback{Models: []provider.Model{
		{Name: "a", Provider: &provider.Retry{Provider: &prices.Provider{Provider: &openai.Provider{}}}},
		{Name: "b", Provider: &provider.Retry{Provider: &prices.Provider{Provider: &anthropic.Provider{}}}}}}
	got := limited(own, mcpclient.Sampling{MaxTokens: 9}).(*provider.Fallback)
	for i, m := range got.Models {
		_, settings := withSettings(m.Provider.(*provider.Retry).Provider.(*prices.Provider).Provider)
		_, before := withSettings(own.Models[i].Provider.(*provider.Retry).Provider.(*prices.Provider).Provider)
		if settings.MaxOutputTokens != 9 || before.MaxOutputTokens != 0 || m.Name != own.Models[i].Name {
			t.Errorf("%s: %d tokens, the agent's own %d", m.Name, settings.MaxOutputTokens, before.MaxOutputTokens)
		}
	}
}
