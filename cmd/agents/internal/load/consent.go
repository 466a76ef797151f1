package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
)

// A distrust is an error about files that are not trusted, or have changed since they were.
type distrust struct{ error }

func (d distrust) Unwrap() error { return d.error }

// asked asks the person at the terminal to trust the files that err is about, and reports
// whether they are trusted now.
func asked(ctx context.Context, p *program.Env, err error) bool {
	if _, ok := errors.AsType[distrust](err); !ok || p.Agree == nil || p.Getenv(EnvTrust) != "" {
		return false
	}
	found, text, failed := Untrusted(p)
	if failed != nil || len(found) == 0 {
		return false
	}
	agreed, failed := p.Agree(ctx, text)
	return failed == nil && agreed && KeepAll(p, found, false) == nil
}

// Consent asks the person at the terminal to trust the files found here, before another
// program loads them. It returns an error only if they remain untrusted.
func Consent(ctx context.Context, p *program.Env) error {
	c, err := Config(p)
	file := ""
	if err == nil {
		file, err = Choose(p, c, "")
	}
	if err == nil {
		err = checkTree(p, c, file)
	}
	if _, ok := errors.AsType[distrust](err); !ok || asked(ctx, p, err) {
		return nil // whoever loads them reports other errors
	}
	return err
}

// checkTree returns an error if the agent file needs trust, and its tree has changed since it was
// trusted.
func checkTree(p *program.Env, c *config.Config, file string) error {
	if want, err := trusted(p, c, file, Options{}); want == nil || err != nil {
		return err
	}
	was := Trusted(p, file)
	if was == nil { // another process has just removed the trust
		return errUntrusted(p, file)
	}
	if _, now := SurveyFile(p, file); len(was.Changes(now)) > 0 {
		return failure.NothingRan(distrust{&agentfile.DriftError{File: program.Shown(file), Against: "what was trusted", Changes: was.Changes(now)}}, trustHint(p))
	}
	return nil
}

// KeepAll stores that the person trusts all of found. With folder, later changes of the person
// in the folders of these files, and of the agent file here, are trusted too.
func KeepAll(p *program.Env, found []*Trust, folder bool) error {
	if here := Trusted(p, Here().Path); folder && here != nil && len(found) == 0 {
		found = []*Trust{here}
	}
	for _, t := range found {
		if folder {
			t.Folder = filepath.Dir(t.Path)
		}
		if err := t.Keep(p); err != nil {
			return err
		}
	}
	return nil
}

// Untrusted returns the files, found here or named, whose current contents are not
// trusted, with a text for the person.
func Untrusted(p *program.Env) (found []*Trust, text string, err error) {
	var b strings.Builder
	add := func(now *Trust, about string) {
		was := renewed(p, now.Path)
		switch {
		case was == nil:
			fmt.Fprintf(&b, "%s\n%s", now.Path, about)
		case len(was.Changes(now)) == 0:
			fmt.Fprintf(&b, "%s: trusted\n", now.Path)
			return
		default:
			fmt.Fprintf(&b, "%s: changed since it was trusted\n", now.Path)
			for _, line := range was.Changes(now) {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
		found = append(found, now)
	}
	var cfg *Trust
	c, err := AnyConfig(p, func(path string, text []byte) error { cfg = SurveyConfig(path, text); return nil })
	if err != nil {
		return nil, "", err
	}
	if cfg != nil {
		cfg.addPolicies(c)
		add(cfg, aboutConfig(c))
	}
	files := c.AgentFiles
	if here := Here(); !slices.ContainsFunc(files, func(f config.AgentFile) bool { return f.Named }) && agentfile.IsAgentFile(here.Path) {
		files = append(files, here)
	}
	for _, f := range files {
		if err := ambiguous(f); err != nil {
			return nil, "", err
		}
		if f.Discovered || len(p.Global.AgentFiles) > 0 {
			tree, now := SurveyFile(p, f.Path)
			add(now, aboutTree(tree, now))
		}
	}
	if b.Len() == 0 {
		return nil, "", failure.NothingRan(errors.New("trust: found no files here that need it"), "--agent-file names a file")
	}
	return found, b.String(), nil
}

// aboutConfig describes what a cfg file decides besides the list of agents.
func aboutConfig(c *config.Config) string {
	var b strings.Builder
	for _, path := range c.File.Policies {
		fmt.Fprintf(&b, "  %-8s%s\n", agentfile.KindPolicy, inLine(path))
	}
	for _, l := range [][2]string{{"sends all events to", c.File.LogHTTP}, {"takes keys from", c.File.ConfigDir}, {"writes sessions to", c.File.SessionDir}} {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %s %s\n", l[0], inLine(l[1]))
		}
	}
	return b.String()
}

// inLine returns a text of a file that is not trusted without line breaks, with which it could
// look like another line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// aboutTree lists what a tree runs, one line each.
func aboutTree(tree *agentfile.Tree, now *Trust) string {
	var b strings.Builder
	lock := now.Tree
	line := func(kind, text string) {
		fmt.Fprintf(&b, "  %-8s%s\n", kind, inLine(text))
	}
	for _, n := range tree.Nodes {
		for _, m := range n.Models() {
			if m.ModelURL != "" {
				line("model", n.Agent.Slug+" sends its prompts to "+m.ModelURL)
			}
		}
		for _, s := range n.Services() {
			line("service", n.Agent.Slug+" calls "+cmp.Or(s.URL, "the servers in "+s.Document))
			for _, command := range s.Commands {
				line("secret", strings.Join(command, " "))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(lock.Files)) {
		line(lock.Files[path].Kind, path)
	}
	for _, path := range slices.Sorted(maps.Keys(now.Keys)) {
		line("keys", path)
	}
	for _, key := range slices.Sorted(maps.Keys(lock.Servers)) {
		s := lock.Servers[key]
		line("server", key+": "+strings.Join(append(slices.Clone(s.Command), s.URL), " "))
	}
	for _, key := range slices.Sorted(maps.Keys(lock.Runners)) {
		line("runner", key+": "+strings.Join(lock.Runners[key].Command, " "))
	}
	return b.String()
}
