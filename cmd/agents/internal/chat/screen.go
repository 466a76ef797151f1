package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/pkg/process"
)

const screenVersion = 2

// A Screen is the request to agents-tui, its only argument.
type Screen struct {
	Version    int      `json:"version"`
	Program    string   `json:"program"`
	Args       []string `json:"args,omitempty"` // global flags
	URL        string   `json:"url,omitempty"`
	TokenFile  string   `json:"tokenFile,omitempty"`
	Agent      string   `json:"agent,omitempty"`
	Session    string   `json:"session,omitempty"`
	Serve      []string `json:"serve,omitempty"`      // flags of the server
	SessionDir string   `json:"sessionDir,omitempty"` // "" is that of the configuration
	Yes        bool     `json:"yes,omitempty"`
	Approvals  string   `json:"approvals,omitempty"` // the file with answers for later runs
	Folder     string   `json:"folder,omitempty"`    // the working folder, without links
	Tree       bool     `json:"tree,omitempty"`      // shows the tree of agents
	Pick       bool     `json:"pick,omitempty"`
	Keys       string   `json:"keys,omitempty"`
	History    string   `json:"history,omitempty"` // the file with what was typed
	Dir        string   `json:"dir,omitempty"`
	Servers    string   `json:"servers,omitempty"`
	Color      bool     `json:"color,omitempty"`
	ASCII      bool     `json:"ascii,omitempty"`
}

// Run holds a conversation at a terminal until the person leaves, with flags for the server
// of agents-tui. Without a terminal that it can draw on, and without agents-tui, it is Plain.
func Run(ctx context.Context, p *program.Env, f runs.Flags, flags []string) error {
	if !p.InTerm || !p.OutTerm || !p.ErrTerm || p.Getenv("TERM") == "dumb" {
		return Plain(ctx, p, f)
	}
	why := f.Keep.Alone()
	if _, err := process.Companion(program.TUI); err != nil {
		why = "agents-tui is not installed beside agents"
	}
	if why != "" {
		p.Note("%s, so this is the chat in plain lines", why)
		return Plain(ctx, p, f)
	}
	if err := f.Keep.Check(); err != nil {
		return err
	}
	r := &Screen{Serve: flags, Yes: f.Rights.Yes, SessionDir: f.Keep.Dir}
	if err := load.Consent(ctx, p); err != nil {
		return err
	}
	if !f.Keep.Continues() {
		c, err := load.Config(p)
		if err != nil {
			return err
		}
		if _, err := load.Choose(p, c, ""); err != nil {
			return err
		}
		return r.Exec(ctx, p)
	}
	path, err := keep.Find(p, &f.Keep)
	if err != nil {
		return err
	}
	if r.Session = filepath.Base(path); r.SessionDir == "" && filepath.Base(f.Keep.Session) != f.Keep.Session {
		r.SessionDir = filepath.Dir(path)
		r.Serve = append(r.Serve, "--session-dir", r.SessionDir)
	}
	if len(p.Global.AgentFiles) == 0 && p.Global.Agent == "" {
		r.Serve = append(r.Serve, "--agent-of", r.Session)
	}
	return r.Exec(ctx, p)
}

// Exec replaces this process by the interface.
func (r *Screen) Exec(ctx context.Context, p *program.Env) error {
	path, err := process.Companion(program.TUI)
	if err != nil {
		return failure.NothingRan(fmt.Errorf("tui: %w", err), "`go install github.com/agents-exe/agents/cmd/...@latest` installs it beside agents; `make build` makes both")
	}
	if r.Program, err = os.Executable(); err != nil {
		return failure.NothingRan(fmt.Errorf("tui: %w", err), "")
	}
	c, err := load.Config(p)
	if err != nil {
		return err
	}
	r.Keys, r.Servers, r.History = program.In(c.Dir.Path, "tui-keys.json"), program.In(p.StateDir(), "servers"), program.In(p.StateDir(), "chat-history")
	r.Approvals = p.ApprovalsFile()
	if dir, err := os.Getwd(); err == nil {
		r.Folder, _ = filepath.EvalSymlinks(dir) // without it no folder is offered
	}
	r.Version, r.Dir = screenVersion, p.Getenv("XDG_RUNTIME_DIR")
	r.Args, r.Agent = globalArgs(&p.Global), cmp.Or(r.Agent, p.Global.Agent)
	r.Color, r.ASCII = p.Color(true), p.ASCII()
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.Exec(ctx, path, []string{string(request)})
}

// globalArgs are the flags for the commands that the interface runs.
func globalArgs(g *program.Flags) []string {
	var args []string
	for _, f := range g.AgentFiles {
		args = append(args, "--agent-file", f)
	}
	for _, f := range []struct{ name, value string }{
		{"--api-keys", g.APIKeys}, {"--log-json-file", g.LogJSON}, {"--log-http", g.LogHTTP}, {"--log-file", g.LogText}, {"--transcript", g.Transcript},
	} {
		if f.value != "" {
			args = append(args, f.name, f.value)
		}
	}
	if g.Locked {
		args = append(args, "--locked")
	}
	return args
}
