package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// pollEvery is how often follow looks for changes; soon is the delay after a call, which
// may have changed something.
const (
	pollEvery = 2 * time.Second
	soon      = 100 * time.Millisecond
)

// follow notifies clients of changed resources until ctx ends. With --expose tools
// --watch it loads the trees again when a file of theirs has changed; a change that
// does not load leaves the trees as they were. Without --watch nothing is loaded: a
// tool that writes files could otherwise have its own files executed.
func (s *service) follow(ctx context.Context) {
	next := time.NewTimer(pollEvery)
	defer next.Stop()
	var closing sync.WaitGroup
	defer closing.Wait()
	last, newest := s.fingerprint()
	if newest.After(s.began) {
		last = "" // changed since it was read, perhaps
	}
	hurried := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.called:
			if !hurried { // otherwise call after call would put it off
				hurried = true
				next.Reset(soon)
			}
			continue
		case <-next.C:
			hurried = false
		}
		last = s.look(ctx, last, &closing)
		next.Reset(pollEvery)
	}
}

// look is one step of follow. last and the result are fingerprints.
func (s *service) look(ctx context.Context, last string, closing *sync.WaitGroup) string {
	s.server.RefreshResources(ctx)
	if s.flags.Expose != "tools" {
		return last
	}
	now, _ := s.fingerprint()
	if now != last && !s.flags.Watch {
		s.say("note: agent files or tools have changed since the start and are not loaded: start the server again, or with --watch")
	}
	if now == last || !s.flags.Watch {
		_, _ = s.offer(ctx) // MCP servers may have changed; tools are never an error
		return now
	}
	trees, err := s.load(ctx)
	if ctx.Err() != nil {
		s.close(trees)
		return now
	}
	if err != nil {
		s.say("warning: the changed agent files are not served: " + err.Error())
		return now
	}
	s.mu.Lock()
	old := s.trees
	s.trees = trees
	s.mu.Unlock()
	s.present()
	idle, _ := s.offer(ctx) // tools are never an error
	closing.Go(func() {
		<-idle
		s.close(old)
	})
	// Not the present fingerprint: files may have changed while they were read.
	return now
}

// unchanged is the policy without --watch: a tool whose executable has changed since
// the start is not executed.
func (s *service) unchanged() agent.Policy {
	stamp := func(path string) string {
		info, err := os.Stat(path)
		if err != nil {
			return ""
		}
		return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
	}
	stamps := map[string]string{}
	for _, t := range s.trees {
		for _, n := range t.Nodes {
			for _, spec := range n.Tools {
				if at := stamp(spec.Source); spec.Agent == "" && at != "" { // a file
					stamps[spec.Source] = at
				}
			}
		}
	}
	return func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if at, ok := stamps[inv.Spec.Source]; ok && at != stamp(inv.Spec.Source) {
			return agent.Verdict{Decision: agent.Deny, Reason: inv.Spec.Source + " has changed since the server started and is not executed: start the server again, or with --watch"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
}

// fingerprint changes when an agent file, a tool or a folder of tools changes; newest is
// the time of the last change.
func (s *service) fingerprint() (text string, newest time.Time) {
	seen := map[string]bool{}
	var b strings.Builder
	add := func(name string, info os.FileInfo) {
		fmt.Fprintf(&b, "%s %d %d %s\n", name, info.ModTime().UnixNano(), info.Size(), info.Mode())
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	note := func(path string) {
		info, err := os.Stat(path)
		if err != nil || seen[path] {
			return
		}
		seen[path] = true
		add(path, info)
		if !info.IsDir() {
			return
		}
		entries, _ := os.ReadDir(path) // what cannot be read offers no tools either
		for _, e := range entries {
			if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil {
				add("  "+e.Name(), info)
			}
		}
	}
	for _, t := range s.trees {
		note(t.Keys.Path)
		note(t.Config.File.Path)
		for _, n := range t.Nodes {
			note(n.File.Path)
			for _, path := range namedPaths(n.File) {
				note(path)
			}
		}
	}
	return b.String(), newest
}

// namedPaths are the files and folders that an agent file names, in every place where
// they are looked for. They may not exist yet.
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
