package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/edge/mcpserver"
	"github.com/agents-exe/agents/pkg/leaf/mediatype"
)

// maxFile is how long a file is that is a resource or a message.
const maxFile = 8 << 20

// An ownResource is an entry of mcpResources: a file that is offered; with a variable {name} in URI
// and Path, files.
type ownResource struct {
	URI         string `json:"uri"`
	Path        string `json:"path"`
	Name        string `json:"name"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
}

// An ownPrompt is an entry of mcpPrompts. Arguments replace {{name}} in its messages.
type ownPrompt struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Arguments   []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	} `json:"arguments"`
	// A message has a text, or a file, or the URI of one of the resources.
	Messages []struct {
		Role     string `json:"role"`
		Text     string `json:"text"`
		File     string `json:"file"`
		Resource string `json:"resource"`
	} `json:"messages"`
}

// present sets the prompts and resources: those of every server, and those that the agent
// files name.
func (s *service) present() {
	s.mu.Lock()
	trees, last := s.trees, s.named
	s.mu.Unlock()
	offered := prompts(trees[0].Config.File.Aliases)
	resources := []mcpserver.Collection{s.agentFiles()}
	if s.flags.Sessions {
		resources = append(resources, s.sessions())
	}
	taken := map[string]bool{}
	for _, p := range offered {
		taken["prompt "+p.Name] = true
	}
	free := func(what string, f *agentfile.File) bool {
		if taken[what] {
			s.say(fmt.Sprintf("left out: %s of %s: there is another one", what, f.Path))
			return false
		}
		taken[what] = true
		return true
	}
	specs := []any{s.flags.Sessions}
	for _, t := range trees {
		f := t.Nodes[0].File
		var own []ownResource
		var ownPrompts []ownPrompt
		f.Part("mcpResources", &own)
		f.Part("mcpPrompts", &ownPrompts)
		specs = append(specs, f.Real, own)
		for _, r := range own {
			if free("resource "+r.URI, f) {
				resources = append(resources, namedResource(filepath.Dir(f.Real), r))
			}
		}
		for _, p := range ownPrompts {
			if free("prompt "+p.Name, f) {
				offered = append(offered, namedPrompt(filepath.Dir(f.Real), p))
			}
		}
	}
	s.server.SetPrompts(offered)
	text, _ := json.Marshal(specs) // plain values
	if string(text) != last {
		s.server.SetResources(resources)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = string(text)
}

// namedResource is a resource of an agent file in dir.
func namedResource(dir string, r ownResource) mcpserver.Collection {
	prefix, rest, _ := strings.Cut(r.URI, "{")
	variable, suffix, _ := strings.Cut(rest, "}")
	c := mcpserver.Collection{Prefix: prefix, Suffix: suffix, Variable: variable, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType}
	c.Name = cmp.Or(c.Name, r.Path)
	c.Read = func(_ context.Context, name string) (string, error) {
		if variable != "" && (name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`)) {
			return "", fs.ErrNotExist
		}
		data, err := readInside(dir, strings.ReplaceAll(r.Path, "{"+variable+"}", name))
		return string(data), err
	}
	c.List = func(context.Context) ([]mcpserver.Item, error) {
		var items []mcpserver.Item
		start, end, _ := strings.Cut(filepath.Base(r.Path), "{"+variable+"}")
		entries, _ := os.ReadDir(filepath.Join(dir, filepath.Dir(r.Path))) // none, if there is no such folder
		for _, e := range entries {
			name, begins := strings.CutPrefix(e.Name(), start)
			name, ends := strings.CutSuffix(name, end)
			if begins && ends && name != "" && name[0] != '.' && e.Type().IsRegular() {
				items = append(items, mcpserver.Item{Name: name})
			}
		}
		return items, nil
	}
	return c
}

// readInside reads a file in dir. Links that leave dir are not followed.
func readInside(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return data, err
}

// namedPrompt is a prompt of an agent file in dir.
func namedPrompt(dir string, p ownPrompt) mcpserver.Prompt {
	out := mcpserver.Prompt{Name: p.Name, Description: p.Description}
	for _, a := range p.Arguments {
		out.Args = append(out.Args, mcpserver.PromptArg{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	out.Messages = func(args map[string]string) ([]mcpserver.Message, error) {
		fill := func(text string) string {
			return placeholder().ReplaceAllStringFunc(text, func(m string) string { return args[m[2:len(m)-2]] })
		}
		var list []mcpserver.Message
		for _, m := range p.Messages {
			message := mcpserver.Message{Assistant: m.Role == "assistant", Resource: fill(m.Resource), Part: agent.Part{Kind: agent.PartText, Text: fill(m.Text)}}
			if m.File != "" {
				data, err := readInside(dir, m.File)
				if err != nil {
					return nil, err
				}
				message.Part = agent.Part{Kind: agent.PartMedia, MIME: mediatype.Of(m.File, data), Data: data, Name: filepath.Base(m.File)}
			}
			list = append(list, message)
		}
		return list, nil
	}
	return out
}
