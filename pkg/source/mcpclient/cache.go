package mcpclient

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/process"
)

// The cache keeps the listing of each server, by all that makes the server what it
// is. A listing saves a start and nothing more: a server that was started reports
// its own.

const (
	// cacheAge is how long a listing counts: nobody would notice that a server
	// that is never called has new tools.
	cacheAge      = 24 * time.Hour
	maxCacheBytes = 2 << 20
	maxCacheFiles = 128
	cacheSuffix   = ".listing"
)

func cacheDir(path string) cachefile.Dir {
	return cachefile.Dir{Path: path, Suffix: cacheSuffix, Version: "agents mcp listing 1",
		MaxBytes: maxCacheBytes, MaxFiles: maxCacheFiles, MaxAge: cacheAge}
}

// A cacheFile is the file of one server; the zero value keeps nothing.
type cacheFile struct {
	dir cachefile.Dir
	key string
}

// A savedListing is a listing as JSON. Its tools are texts: as JSON within JSON
// they would not stay byte for byte what they are.
type savedListing struct {
	Tools        []string `json:"tools"`
	Resources    bool     `json:"resources"`
	Headers      bool     `json:"headers"`
	Protocol     string   `json:"protocol"`
	Instructions string   `json:"instructions"`
}

func (s *Toolset) cache() cacheFile {
	key, ok := s.server.identity()
	if !ok {
		return cacheFile{}
	}
	// Some servers offer other tools to other clients.
	key = append(key, fmt.Sprint(s.opts.Elicit != nil, s.opts.Sample != nil))
	return cacheFile{cacheDir(s.opts.CacheDir), fmt.Sprintf("%q", key)}
}

// identity is what makes the server what it is. Of the environment and the
// headers it has the names alone: their values may be secret. A server that is
// not there has none, and an address of this machine is none: it is near, and
// another server may have it tomorrow.
func (s *Server) identity() (key []string, ok bool) {
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || httphost.Local(u) {
			return nil, false
		}
		return append([]string{s.Protocol, s.URL}, slices.Sorted(maps.Keys(s.Headers))...), true
	}
	file, err := process.LookPath(s.Executable, s.Env)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, entry := range s.Env {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	key = append([]string{s.Protocol, s.Identity, s.Dir}, names...)
	key = append(append(key, s.Executable), s.Args...)
	// Interpreters get their program as an argument.
	for i, path := range append([]string{file}, s.Args...) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		info, err := os.Stat(path)
		if i == 0 && err != nil {
			return nil, false
		}
		if err == nil && info.Mode().IsRegular() {
			key = append(key, path, process.Stamp(path))
		}
	}
	return key, true
}

// find is what the cache has, nil if it has nothing of use.
func (f cacheFile) find() *listing {
	body, ok := f.dir.Load(f.key)
	if !ok {
		return nil
	}
	var saved savedListing
	if json.Unmarshal(body, &saved) != nil {
		return nil
	}
	l := &listing{resources: saved.Resources, headers: saved.Headers, protocol: saved.Protocol, instructions: saved.Instructions}
	for _, tool := range saved.Tools {
		l.tools = append(l.tools, json.RawMessage(tool))
	}
	return l
}

func (f cacheFile) keep(l *listing) {
	saved := savedListing{Tools: []string{}, Resources: l.resources, Headers: l.headers, Protocol: l.protocol, Instructions: l.instructions}
	for _, tool := range l.tools {
		if !utf8.Valid(tool) {
			return
		}
		saved.Tools = append(saved.Tools, string(tool))
	}
	if body, err := json.Marshal(saved); err == nil {
		f.dir.Store(f.key, body)
	}
}
