package openai

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

const secret = "sk-very-secret-0123456789"

func key() string { return secret }

func TestURLs(t *testing.T) {
	var got string
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.RequestURI
		io.WriteString(w, deltas(`{"content":"x"}`)+stop)
	})
	server := p.BaseURL
	for base, want := range map[string]string{
		"":                                "/chat/completions",
		"/":                               "/chat/completions",
		"/v1":                             "/v1/chat/completions",
		"/v1/":                            "/v1/chat/completions",
		"/v1/chat/completions":            "/v1/chat/completions",
		"/v1/chat/completions/":           "/v1/chat/completions",
		"/v1beta/openai?key=a%26b&x=1":    "/v1beta/openai/chat/completions?key=a%26b&x=1",
		"/d/chat/completions?api-version": "/d/chat/completions?api-version=",
		"/a%2Fb/v1#frag":                  "/a%2Fb/v1/chat/completions",
	} {
		p.BaseURL = server + base
		if _, _, err := ask(t, p); err != nil || got != want {
			t.Errorf("URL %q: asked %q, want %q (%v)", base, got, want, err)
		}
	}
}

func TestInvalidSettingsAreReported(t *testing.T) {
	tests := []struct {
		p    Provider
		want string
	}{
		{Provider{}, "the model has no URL, and its flavor has no default"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "api.openai.com/v1"}}, "the model's URL must begin with http:// or https:// and name a host: api.openai.com/v1"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "ftp://host/v1?key=" + secret}}, "the model's URL must begin with http:// or https:// and name a host: ftp://host/v1"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://user:" + secret + "@ho st"}}, "the model's URL is not a valid URL"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "user:" + secret + "@host/v1"}}, "the model's URL must begin with http:// or https:// and name a host"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "ftp://user:" + secret + "@host/v1"}}, "the model's URL must begin with http:// or https:// and name a host"},
		{Provider{Flavor: "gpt"}, `unknown flavor "gpt"; known are ` + strings.Join(Flavors(), ", ")},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", Key: func() string { return secret + "\n" }}}, "the key contains a character that cannot be sent, such as a line break"},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", ExtraBody: rawBody("messages", "[]")}}, `extra body: "messages" cannot be replaced`},
		{Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1", ExtraBody: rawBody("x", "{")}}, `extra body: the value of "x" is not valid JSON`},
	}
	for _, tt := range tests {
		_, err := tt.p.Generate(t.Context(), modeltest.Hello, nil)
		if e := modeltest.ModelError(t, err); e.Error() != tt.want || e.Temporary {
			t.Errorf("error = %q (temporary %v), want %q", e, e.Temporary, tt.want)
		}
	}
	bad := &agent.Request{Tools: []agent.ToolSpec{{Name: "t", Schema: []byte("{")}}}
	_, err := (&Provider{Settings: modelhttp.Settings{BaseURL: "http://127.0.0.1:1"}}).Generate(t.Context(), bad, nil)
	if e := modeltest.ModelError(t, err); e.Error() != "the schema of tool t is not valid JSON" {
		t.Errorf("error = %q", e)
	}
}

func TestAProviderServesManyAtOnce(t *testing.T) {
	p := against(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		word := body[bytes.Index(body, []byte("word-")):]
		io.WriteString(w, deltas(`{"content":"`+string(word[:7])+`"}`)+stop)
	})
	p.Key = key
	var g errgroup.Group
	for i := range 20 {
		g.Go(func() error {
			word := fmt.Sprintf("word-%02d", i)
			resp, err := p.Generate(t.Context(), &agent.Request{Messages: []agent.Message{agent.UserText(word)}}, nil)
			if err == nil && resp.Message.Text() != word {
				err = fmt.Errorf("%s was answered with %q", word, resp.Message.Text())
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	many := deltas(`{"tool_calls":[` + strings.Repeat(`{"name":"t"},`, modelhttp.MaxCalls) + `{"name":"t"}]}`)
	_, _, err := ask(t, answering(t, "", many+stop))
	if e := modeltest.ModelError(t, err); e.Error() != "the answer has more than 16384 tool calls (the limit of one answer)" {
		t.Errorf("error = %q", e)
	}
	_, _, err = ask(t, answering(t, "", `{"choices":[`+strings.Repeat(`{},`, 1<<18+1)+`{}]}`))
	if e := modeltest.ModelError(t, err); !strings.Contains(e.Error(), "it has too many elements") {
		t.Errorf("error = %q", e)
	}
	_, _, err = ask(t, answering(t, "", `[`+strings.Repeat(`1,`, 1<<18+1)+`{"choices":[]}]`))
	if e := modeltest.ModelError(t, err); !strings.Contains(e.Error(), "it has too many elements") {
		t.Errorf("error of a list = %q", e)
	}
}
