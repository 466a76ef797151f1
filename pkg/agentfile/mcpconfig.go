package agentfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/schema"
)

// mcpConfig reads a file of servers as other MCP clients have it, and reports what of
// it is not supported.
func (l *loader) mcpConfig(n *Node, pointer, name string) []*server {
	path, ok := l.resolve(n, pointer, name, LeftOut)
	if !ok {
		return nil
	}
	problem := func(severity Severity, format string, args ...any) {
		l.report(n.File.problem(severity, CodeServer, pointer, "%s%s", path, fmt.Sprintf(format, args...)))
	}
	l.further = append(l.further, path)
	data, err := readRegular(path, MaxBytes)
	if err != nil {
		problem(LeftOut, ": %s", plain(err))
		return nil
	}
	if !l.take(KindConfig, path, data) {
		return nil
	}
	entries, err := mcpEntries(data)
	if err != nil {
		problem(LeftOut, "%s", err)
		return nil
	}
	var list []*server
	for _, s := range clientServers(entries) {
		list = append(list, &server{MCPServer: s, pointer: pointer, dir: filepath.Dir(path), file: path + ": "})
	}
	return list
}

// clientServers reads the servers of a mcpServers object as other MCP clients write
// it, sorted by name.
func clientServers(entries map[string]json.RawMessage) []MCPServer {
	var list []MCPServer
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s, unread, err := mcpEntry(entries[name])
		s.Name, s.key, s.unread, s.invalid = name, name, unread, err
		list = append(list, s)
	}
	return list
}

// mcpEntries are the servers of a file by their names. The error continues the name
// of the file.
func mcpEntries(data []byte) (map[string]json.RawMessage, error) {
	if _, err := schema.Parse(data); err != nil {
		return nil, fmt.Errorf(":%w", err)
	}
	var file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		VSCode  json.RawMessage            `json:"servers"`
		Zed     json.RawMessage            `json:"context_servers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New(": mcpServers is not an object")
	}
	switch {
	case file.Servers != nil:
		return file.Servers, nil
	case file.VSCode != nil:
		return nil, errors.New(": it has servers in place of mcpServers, which are not read")
	case file.Zed != nil:
		return nil, errors.New(": it has context_servers in place of mcpServers, which are not read")
	}
	return nil, errors.New(": it has no mcpServers")
}

// mcpEntry reads a server of such a file, and returns what of it is not supported.
// The error continues the server's name.
func mcpEntry(data json.RawMessage) (s MCPServer, unread []string, err error) {
	var entry struct {
		MCPServer
		Command   string          `json:"command"`
		ServerURL string          `json:"serverUrl"`
		HTTPURL   string          `json:"httpUrl"`
		EnvFile   json.RawMessage `json:"envFile"`
		Auth      json.RawMessage `json:"auth"`
		// Only an agent file allows it; other programs mean other things
		// by this key.
		Sampling json.RawMessage `json:"sampling"`
	}
	err = json.Unmarshal(data, &entry)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return s, nil, fmt.Errorf(": %s has a value of the wrong type, a JSON %s", strings.TrimPrefix(cmp.Or(kind.Field, "it"), "MCPServer."), kind.Value)
	}
	if err != nil {
		return s, nil, fmt.Errorf(": %w", err)
	}
	s = entry.MCPServer
	s.Executable = entry.Command
	for key, value := range map[string]float64{"timeoutSeconds": s.TimeoutSeconds, "startTimeoutSeconds": s.StartTimeoutSeconds, "pollSeconds": s.PollSeconds} {
		if value < 0 || value > maxSeconds {
			return s, nil, fmt.Errorf(": %s is %g, which is not between 0 and %d", key, value, maxSeconds)
		}
	}
	switch {
	case s.URL != "":
		s.Tag = tagHTTP
	case s.Executable == "" && entry.ServerURL+entry.HTTPURL != "":
		return s, nil, errors.New(" has neither command nor url; serverUrl and httpUrl are not read")
	case s.Executable == "":
		return s, nil, errors.New(" has neither command nor url")
	}
	for key, value := range map[string]json.RawMessage{"envFile": entry.EnvFile, "auth": entry.Auth} {
		if len(value) > 0 && string(value) != "null" {
			unread = append(unread, key+" is not read")
		}
	}
	if refs := unreplaced(&s); len(refs) > 0 {
		unread = append(unread, strings.Join(refs, ", ")+": passed on as written; only ${VAR} in env and ${key:ID} in headers are replaced")
	}
	slices.Sort(unread)
	return s, unread, nil
}

// maxSeconds is the longest time that the schema of agent files allows.
const maxSeconds = 604800

// unreplaced returns the references in s that other clients replace, and that are
// passed on as written here. In an argument, ${VAR} may be meant for a shell.
func unreplaced(s *MCPServer) []string {
	var refs []string
	look := func(text string, all bool, ours *regexp.Regexp) {
		for _, ref := range anyReference().FindAllString(text, -1) {
			if (ours == nil || !ours.MatchString(ref)) && (all || clientReference().MatchString(ref)) {
				refs = append(refs, ref)
			}
		}
	}
	look(s.URL, true, nil)
	look(s.Executable, true, nil)
	look(s.Cwd, true, nil)
	for _, arg := range s.Args {
		look(arg, false, nil)
	}
	for _, value := range s.Env {
		look(value, false, variable())
	}
	for _, value := range s.Headers {
		look(value, true, keyReference())
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

var (
	anyReference    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^}]*\}`) })
	clientReference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\$\{(((env|input|command|config):.*)|[A-Za-z_][A-Za-z0-9_]*:-.*|workspaceFolder(Basename)?|userHome|pathSeparator|/)\}$`)
	})
)
