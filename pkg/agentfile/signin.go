package agentfile

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/source/signin"
)

// An OAuth says how to sign in to an MCP server. With the zero value a person does, and the
// client registers itself.
type OAuth struct {
	signin.Client
	ClientSecret string `json:"clientSecret"` // ${key:ID}
}

// signIn lets the client of s sign in, unless it has a header for that.
func (l *loader) signIn(c *mcpclient.Server, s *server) error {
	for name := range c.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return nil
		}
	}
	if l.opts.SignIn.Dir == "" {
		return nil
	}
	in := &signin.Server{URL: c.URL, Dir: l.opts.SignIn.Dir, Keyring: l.opts.SignIn.Keyring}
	if l.opts.SignIn.Command != nil {
		in.Command = l.opts.SignIn.Command(s.Name)
	}
	if o := s.OAuth; o != nil {
		in.Client = o.Client
		for _, file := range []*string{&in.Client.PrivateKey, &in.Client.Assertion} {
			if *file != "" {
				*file = absolute(s.dir, *file)
				l.further = append(l.further, *file)
			}
		}
		switch {
		case o.Grant != "" && o.ID == "":
			return fmt.Errorf("oauth: grant %s needs a clientId", o.Grant)
		case o.Grant == signin.JWTBearer && o.Assertion == "":
			return errors.New("oauth: grant jwt_bearer needs an assertionFile")
		}
		if o.ClientSecret != "" {
			match := keyReference().FindStringSubmatch(o.ClientSecret)
			if match == nil || match[0] != o.ClientSecret {
				return errors.New("oauth: clientSecret is not ${key:ID}, the name of a key in the keys file")
			}
			in.Client.Secret = func(u *url.URL) (string, error) { return l.keyFor(match[1], u) }
		}
	}
	for _, secret := range in.Secrets() {
		l.tree.secrets = append(l.tree.secrets, config.NewSecret(secret))
	}
	s.signIn, c.Authorize = in, in.Transport
	return nil
}

// A Connected is an MCP server of an agent, as its client reaches it.
type Connected struct {
	Agent  string // the slug of the agent
	Name   string
	Server mcpclient.Server
	// SignIn is how to sign in to it; nil for a program, and for a server whose headers
	// authorize requests.
	SignIn *signin.Server
}

// MCPServers returns the MCP servers of the tree, in the order of its nodes.
func (t *Tree) MCPServers() []Connected {
	var list []Connected
	for _, n := range t.Nodes {
		for _, s := range sourcesOf[*server](n) {
			if s.settings == nil {
				list = append(list, Connected{n.File.Spec.Slug, s.Name, s.client, s.signIn})
			}
		}
	}
	return list
}

// secretFiles are the files and folders that hold secrets of this run.
func (l *loader) secretFiles(dir string) []string {
	list := slices.DeleteFunc([]string{l.opts.KeysFile, l.opts.SignIn.Dir}, func(s string) bool { return strings.TrimSpace(s) == "" })
	for i, path := range list {
		list[i] = filepath.Clean(absolute(dir, path))
	}
	return list
}
