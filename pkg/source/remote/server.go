package remote

import (
	"cmp"
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
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
)

// maxListing limits the list of agents of a server.
const maxListing = 8 << 20

// A Server is a running `agents serve`.
type Server struct {
	// URL is its address, as `agents serve` prints it: http://HOST:PORT, or unix:PATH.
	URL string
	// Token returns the bearer token; nil sends none.
	Token func() string
}

// A Description is what a server says of an agent.
type Description struct {
	Name        string          `json:"name"` // the slug
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Effects     agent.Effects   `json:"effects,omitempty"`
	Agent       string          `json:"agent,omitempty"` // the slug of the sub-agent that a tool is
	// Tools are those of an agent. They have none themselves.
	Tools []Description `json:"tools,omitempty"`
}

// DescriptionOf returns what a server says of an agent or a tool.
func DescriptionOf(t agent.ToolSpec) Description {
	return Description{Name: t.Name, Description: t.Description, Schema: t.Schema, Effects: t.Effects}
}

func (s *Server) token() string {
	if s.Token == nil {
		return ""
	}
	return s.Token()
}

// client does not follow redirects.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// address is the URL of a path of the server.
func (s *Server) address(path ...string) (string, error) {
	if strings.HasPrefix(s.URL, wsconn.Socket) {
		return s.URL + ":" + (&url.URL{Path: "/"}).JoinPath(path...).String(), nil
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", err
	}
	return u.JoinPath(path...).String(), nil
}

// get sends a GET request. The caller closes the body of the answer.
func (s *Server) get(ctx context.Context, path, query string) (io.ReadCloser, error) {
	address, err := s.address(path)
	if err != nil {
		return nil, err
	}
	local, address := wsconn.Local(address)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+query, nil)
	if err != nil {
		return nil, err
	}
	if token := s.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := cmp.Or(local, client).Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxListing)) // the status says enough
	return nil, fmt.Errorf("%s: %s", res.Status, message(text))
}

// Agents asks the server for the agents that the token may use.
func (s *Server) Agents(ctx context.Context) ([]Description, error) {
	body, err := s.get(ctx, "v1/agents", "")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var list struct{ Agents []Description }
	if err := json.NewDecoder(io.LimitReader(body, maxListing)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the list of agents: %w", err)
	}
	return list.Agents, nil
}

// Describe asks the server for the description of the agent with a slug.
func (s *Server) Describe(ctx context.Context, slug string) (*Description, error) {
	list, err := s.Agents(ctx)
	if err != nil {
		return nil, err
	}
	var slugs []string
	for _, d := range list {
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

// Dial connects to the channel of an agent. See channel.Open for what follows.
func (s *Server) Dial(ctx context.Context, slug string) (*wsconn.Conn, error) {
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
	return agent.ToolSpec{Name: a.Name, Description: a.Description.Description, Schema: a.Description.Schema, Source: a.Server.URL, Channel: agent.ChannelVersion, Far: true}
}
