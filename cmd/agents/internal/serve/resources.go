package serve

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// agentFiles are the agent files of the trees as resources, by slug.
func (s *service) agentFiles() mcpserver.Collection {
	return mcpserver.Collection{
		Prefix: "agents://agent/", Variable: "slug", Name: "agent file", MIMEType: "application/json",
		Description: "the agent file of an agent, without secrets",
		List: func(context.Context) ([]mcpserver.Item, error) {
			var items []mcpserver.Item
			for slug, f := range s.files() {
				items = append(items, mcpserver.Item{Name: slug, Description: f.Spec.Announce})
			}
			slices.SortStableFunc(items, func(a, b mcpserver.Item) int { return strings.Compare(a.Name, b.Name) })
			return items, nil
		},
		Read: func(_ context.Context, slug string) (string, error) {
			f := s.files()[slug]
			if f == nil {
				return "", fmt.Errorf("agent %s: %w", slug, fs.ErrNotExist)
			}
			return publicFile(f.Real)
		},
	}
}

// files are the agent files by slug. If several have the same slug none is
// included, because the choice would be arbitrary.
func (s *service) files() map[string]*agentfile.File {
	s.mu.Lock()
	trees := s.trees
	s.mu.Unlock()
	files := map[string]*agentfile.File{}
	for _, t := range trees {
		for _, n := range t.Nodes {
			slug := n.File.Spec.Slug
			if other, ok := files[slug]; ok && (other == nil || other.Real != n.File.Real) {
				files[slug] = nil
				continue
			}
			files[slug] = n.File
		}
	}
	for slug, f := range files {
		if f == nil {
			s.say("left out: the agent files of several agents have the slug " + slug + ", and none of them is a resource")
			delete(files, slug)
		}
	}
	return files
}

// publicFile is the agent file at path as it is now, without secrets.
func publicFile(path string) (string, error) {
	if _, _, err := agentfile.Read(path); err != nil { // a regular file, which is valid
		return "", fmt.Errorf("read agent file: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read agent file: %w", err)
	}
	if line, rest, ok := bytes.Cut(data, []byte("\n")); ok && bytes.HasPrefix(line, []byte("#!")) {
		data = rest
	}
	value, err := jsondoc.Decode(data)
	if err != nil {
		return "", fmt.Errorf("read agent file: %w", err)
	}
	text, err := jsondoc.Encode(public("", value), "  ")
	return string(text) + "\n", err
}

// hidden replaces a value that may be a secret.
const hidden = "[secret]"

// public is a JSON value without what may be a secret: values whose key says so, those
// of env, headers and extraBody, arguments that are no plain options, and the password
// and the query of an address.
func public(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k, member := range v {
			switch strings.ToLower(key) {
			case "env", "headers", "extrabody", "extra-body":
				v[k] = hidden
			default:
				v[k] = public(k, member)
			}
		}
	case []any:
		for i, member := range v {
			text, ok := member.(string)
			switch {
			case ok && strings.EqualFold(key, "args"):
				v[i] = publicArgument(text)
			default:
				v[i] = public(key, member)
			}
		}
	case string:
		if toolenv.IsSecret(key) {
			return hidden
		}
		return publicURL(v)
	}
	return value
}

// publicArgument is an argument without what may be a secret: the name of an option,
// and of other arguments nothing, for a token has no mark.
func publicArgument(text string) string {
	name, _, valued := strings.Cut(text, "=")
	switch {
	case valued && strings.HasPrefix(name, "--"):
		return name + "=" + hidden
	case !valued && (strings.HasPrefix(name, "--") || strings.HasPrefix(name, "-") && len(name) == 2):
		return name
	}
	return hidden
}

func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return text
	}
	if _, ok := u.User.Password(); ok {
		u.User = url.UserPassword(u.User.Username(), "secret")
		text = u.String()
	}
	if u.RawQuery != "" {
		u.RawQuery = "secret"
		text = u.String()
	}
	return text
}
