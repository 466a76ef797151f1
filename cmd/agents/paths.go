package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/urfave/cli/v3"
)

// effective are the paths in effect, as paths --json prints them.
type effective struct {
	ConfigFile config.Place      `json:"config_file"`
	ConfigDir  config.Place      `json:"config_dir"`
	AgentFiles []agentPlace      `json:"agent_files"`
	Agents     []string          `json:"agents"` // for scripts of agents-exe
	Keys       config.KeysChoice `json:"keys"`
	Prices     config.Place      `json:"prices"`
	Cache      config.Place      `json:"cache"`
	Trust      config.Place      `json:"trust"`
	Approvals  config.Place      `json:"approvals"`
	Sessions   []config.Place    `json:"sessions"`
	Logs       []config.Place    `json:"logs"`
}

type agentPlace struct {
	config.AgentFile
	Slug  string `json:"slug,omitempty"`
	Error string `json:"error,omitempty"`
}

func pathsCommand(p *program.Env) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print one JSON object", Destination: &asJSON}},
		Action: command.WithoutArguments(func(_ context.Context, _ *cli.Command) error {
			e, err := effectivePaths(p)
			if err != nil {
				return err
			}
			if asJSON {
				return p.WriteJSON(e)
			}
			return p.PrintClean(e.text())
		}),
	}
}

func effectivePaths(p *program.Env) (*effective, error) {
	c, err := load.Harmless(p)
	if err != nil {
		return nil, err
	}
	p.Warn(c.Warnings...)
	e := &effective{ConfigDir: c.Dir, AgentFiles: []agentPlace{}, Agents: []string{}, Logs: []config.Place{}}
	if n := len(c.Looked); n > 0 {
		e.ConfigFile = c.Looked[n-1]
	}
	first := ""
	for _, f := range c.AgentFiles {
		place := agentPlace{AgentFile: f}
		if err := load.CheckRoot(p, f); err != nil {
			place.Error = err.Error()
			e.AgentFiles = append(e.AgentFiles, place)
			continue
		}
		file, _, err := agentfile.Read(f.Path)
		switch {
		case err == nil:
			place.Slug = file.Spec.Slug
			if first == "" {
				first = f.Path
			}
		case !f.Named && !agentfile.IsAgentFile(f.Path):
			continue
		default:
			place.Error = err.Error()
		}
		e.AgentFiles = append(e.AgentFiles, place)
		e.Agents = append(e.Agents, f.Path)
	}
	e.Keys = c.KeysFile(first)
	e.Prices = c.PricesFile()
	e.Cache = config.Place{Path: p.CacheDir(), Why: "XDG_CACHE_HOME, else ~/.cache", Found: p.CacheDir() != ""}
	_, err = os.Stat(load.TrustDir(p))
	e.Trust = config.Place{Path: load.TrustDir(p), Why: "XDG_STATE_HOME, else ~/.local/state", Found: err == nil}
	e.Approvals = config.Place{Path: p.ApprovalsFile(), Why: "in the folder for state; calls that you allowed for later runs"}
	_, err = os.Stat(e.Approvals.Path)
	e.Approvals.Found = err == nil
	for _, dir := range load.SessionDirs(p, c, "") {
		_, err := os.Stat(dir.Path)
		dir.Found = err == nil
		e.Sessions = append(e.Sessions, dir)
	}
	for _, log := range [][3]string{
		{p.Global.LogJSON, c.File.LogJSON, "json"}, {p.Global.LogText, c.File.LogText, "file"}, {p.Global.LogHTTP, c.File.LogHTTP, "http"},
	} {
		switch {
		case log[0] != "":
			e.Logs = append(e.Logs, config.Place{Path: log[0], Why: "--log-" + strings.Replace(log[2], "json", "json-file", 1), Found: true})
		case log[1] != "":
			e.Logs = append(e.Logs, config.Place{Path: log[1], Why: "agentsLogs in " + c.File.Path, Found: true})
		}
	}
	return e, nil
}

// text is one line for each path: what it is, where, why.
func (e *effective) text() string {
	var b strings.Builder
	line := func(what string, p config.Place) {
		switch {
		case p.Path == "":
			fmt.Fprintf(&b, "%-11s none\n", what)
		case !p.Found:
			fmt.Fprintf(&b, "%-11s %s (%s; not there)\n", what, p.Path, p.Why)
		default:
			fmt.Fprintf(&b, "%-11s %s (%s)\n", what, p.Path, p.Why)
		}
	}
	line("cfg file", e.ConfigFile)
	line("cfg folder", e.ConfigDir)
	for _, a := range e.AgentFiles {
		p := a.Place
		switch {
		case a.Error != "":
			p.Why += "; " + a.Error
		default:
			p.Why = a.Slug + ", " + p.Why
		}
		line("agent", p)
	}
	if len(e.AgentFiles) == 0 {
		line("agent", config.Place{})
	}
	line("keys", e.Keys.Place)
	line("prices", e.Prices)
	line("cache", e.Cache)
	line("trust", e.Trust)
	line("approvals", e.Approvals)
	for _, s := range e.Sessions {
		line("sessions", s)
	}
	for _, l := range e.Logs {
		line("log", l)
	}
	return b.String()
}
