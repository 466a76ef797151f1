package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/urfave/cli/v3"
)

const tuiVersion = 1

// A tuiRequest is the argument of that program.
type tuiRequest struct {
	Version   int      `json:"version"`
	Program   string   `json:"program"`
	Args      []string `json:"args,omitempty"` // global flags
	URL       string   `json:"url,omitempty"`
	TokenFile string   `json:"tokenFile,omitempty"`
	Agent     string   `json:"agent,omitempty"`
	Session   string   `json:"session,omitempty"`
	Serve     []string `json:"serve,omitempty"` // flags of the server
	Pick      bool     `json:"pick,omitempty"`
	Keys      string   `json:"keys,omitempty"`
	Dir       string   `json:"dir,omitempty"`
	Servers   string   `json:"servers,omitempty"`
	Color     bool     `json:"color,omitempty"`
	ASCII     bool     `json:"ascii,omitempty"`
}

func tuiCommand(p *program.Env) *cli.Command {
	var attach bool
	r := &tuiRequest{Version: tuiVersion}
	return &cli.Command{
		ArgsUsage: "[URL|SESSION] [-- FLAGS OF SERVE]",
		Description: `Shows conversations with agents, for which it starts a server. Finished messages and
calls go into the scrollback; below it are the tree of agents, their questions, and the
input. Press ? for a list of the keys; tui-keys.json in your configuration folder changes
them.

With --attach it uses the server at URL, or shows the run or session SESSION; without
either, it lists runs and sessions to choose from.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "attach", Usage: "show a run of another server, or continue a session", Destination: &attach},
			&cli.StringFlag{Name: "token-file", TakesFile: true, Usage: "read the bearer token for the server from `FILE`", Destination: &r.TokenFile},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			r.Serve = c.Args().Slice()
			if where := c.Args().First(); attach && where != "" && !strings.HasPrefix(where, "-") {
				r.Serve = r.Serve[1:]
				if strings.Contains(where, "://") || strings.HasPrefix(where, "unix:") {
					r.URL = where
				} else {
					r.Session = where
				}
			}
			if len(r.Serve) > 0 && !strings.HasPrefix(r.Serve[0], "-") {
				return failure.Usage("`agents tui --help` lists the flags", "tui: unexpected argument %q", r.Serve[0])
			}
			r.Pick = attach && r.URL == "" && r.Session == ""
			if !p.InTerm || !p.OutTerm {
				return failure.Usage("`agents run` answers one prompt without a terminal", "tui: standard input and output must be a terminal")
			}
			return execTUI(ctx, p, r)
		},
	}
}

// execTUI replaces this process by the interface.
func execTUI(ctx context.Context, p *program.Env, r *tuiRequest) error {
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
	if c.Dir.Path != "" {
		r.Keys = filepath.Join(c.Dir.Path, "tui-keys.json")
	}
	if dir := p.StateDir(); dir != "" {
		r.Servers = filepath.Join(dir, "servers")
	}
	r.Dir = p.Getenv("XDG_RUNTIME_DIR")
	r.Args, r.Agent = globalArgs(&p.Global), p.Global.Agent
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
