package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/wsconn"
)

// maxListing limits the list of agents of a server.
const maxListing = 8 << 20

// A Server is where `agents serve` answers.
type Server struct {
	// URL is its address, as `agents serve` prints it.
	URL string
	// Token returns the bearer token; nil sends none.
	Token func() string
}

// A Description is what a server says of an agent.
type Description struct {
	Name        string          `json:"name"` // the slug
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

func (s *Server) token() string {
	if s.Token == nil {
		return ""
	}
	return s.Token()
}

// client sends nothing to another address than that of the Server.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// address is the URL of a path of the server.
func (s *Server) address(path ...string) (string, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	return u.JoinPath(path...).String(), nil
}

// Describe asks the server for the description of the agent with a slug.
func (s *Server) Describe(ctx context.Context, slug string) (*Description, error) {
	address, err := s.address("v1/agents")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if token := s.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxListing))
	if err != nil {
		return nil, fmt.Errorf("read the list of agents: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", res.Status, message(text))
	}
	var list struct{ Agents []Description }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the list of agents: %w", err)
	}
	var slugs []string
	for _, d := range list.Agents {
		if d.Name == slug {
			return &d, d.check()
		}
		slugs = append(slugs, d.Name)
	}
	slices.Sort(slugs)
	return nil, fmt.Errorf("it has no agent %q; it has %.500s", slug, strings.Join(slugs, ", "))
}

// check returns an error if the description cannot be that of a tool.
func (d *Description) check() error {
	var schema struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(d.Schema, &schema); err != nil || schema.Type != "object" {
		return errors.New("the schema of its arguments is not that of an object")
	}
	return nil
}

// message returns what the body of a refusal says.
func message(text []byte) string {
	var body struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(text, &body) == nil && body.Error.Message != "" {
		return fmt.Sprintf("%.500s", body.Error.Message)
	}
	return fmt.Sprintf("%.200s", strings.Join(strings.Fields(string(text)), " "))
}

// dial connects to the channel of an agent.
func (s *Server) dial(ctx context.Context, slug string) (*wsconn.Conn, error) {
	address, err := s.address("v1/agents", slug, "channel")
	if err != nil {
		return nil, err
	}
	return wsconn.Dial(ctx, address, wsconn.Options{Token: s.token(), Client: client})
}

// An Agent is an agent of a Server as a tool.
type Agent struct {
	Server      *Server
	Description *Description
	// Name is that of the tool.
	Name string
}

// Spec implements agent.Tool.
func (a *Agent) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: a.Name, Description: a.Description.Description, Schema: a.Description.Schema, Source: a.Server.URL, Channel: agent.ChannelVersion}
}
