package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agentfile"
)

// pollEvery is how often changes are looked for.
const pollEvery = 2 * time.Second

// follow tells clients of changed resources, and with --expose tools loads the trees
// anew when a file of theirs has changed, until ctx ends. A change that does not
// load leaves what there was.
func (s *service) follow(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var closing sync.WaitGroup
	defer closing.Wait()
	last := s.fingerprint()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.server.RefreshResources(ctx)
		if s.flags.expose != "tools" {
			continue
		}
		now := s.fingerprint()
		if now == last {
			_, _ = s.offer(ctx) // MCP servers may have changed; tools are never an error
			continue
		}
		last = now
		trees, err := s.load(ctx)
		if ctx.Err() != nil {
			s.close(trees)
			return
		}
		if err != nil {
			s.say("warning: the changed agent files are not served: " + err.Error())
			continue
		}
		s.mu.Lock()
		old := s.trees
		s.trees = trees
		s.mu.Unlock()
		s.server.SetPrompts(prompts(trees[0].config.File.Aliases))
		idle, _ := s.offer(ctx) // tools are never an error
		last = s.fingerprint()
		closing.Go(func() {
			<-idle
			s.close(old)
		})
	}
}

// fingerprint changes when an agent file, a tool or a folder of tools does.
func (s *service) fingerprint() string {
	seen := map[string]bool{}
	var b strings.Builder
	note := func(path string) {
		info, err := os.Stat(path)
		if err != nil || seen[path] {
			return
		}
		seen[path] = true
		fmt.Fprintf(&b, "%s %d %d %s\n", path, info.ModTime().UnixNano(), info.Size(), info.Mode())
		if !info.IsDir() {
			return
		}
		entries, _ := os.ReadDir(path) // what cannot be read offers no tools either
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil {
				fmt.Fprintf(&b, "  %s %d %d %s\n", e.Name(), info.ModTime().UnixNano(), info.Size(), info.Mode())
			}
		}
	}
	for _, t := range s.trees {
		note(t.keys.Path)
		note(t.config.File.Path)
		for _, n := range t.Nodes {
			note(n.File.Path)
			for _, path := range namedPaths(n.File) {
				note(path)
			}
		}
	}
	return b.String()
}

// namedPaths are the files and folders that an agent file names, wherever it may
// find them. One that does not exist yet may come.
func namedPaths(f *agentfile.File) []string {
	paths := append([]string{f.Spec.ToolDirectory, f.Spec.Script}, f.Spec.MCPConfigs...)
	for _, box := range f.Spec.BashToolboxes {
		paths = append(paths, box.Path)
	}
	for _, extra := range f.Spec.ExtraAgents {
		paths = append(paths, extra.Path)
	}
	var list []string
	for _, path := range paths {
		switch {
		case path == "":
		case filepath.IsAbs(path):
			list = append(list, path)
		default:
			list = append(list, filepath.Join(filepath.Dir(f.Path), path), filepath.Join(filepath.Dir(f.Real), path), path)
		}
	}
	return list
}
