package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/serving"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/filemode"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"github.com/urfave/cli/v3"
)

func doctorCommand(p *program.Env) *cli.Command {
	var online, asJSON bool
	return &cli.Command{
		Description: `Prints a line for everything that a run needs: ok, warning or problem, with a next step.
It loads the agents with their tools and starts their MCP servers. You can post the
report in a bug tracker: it contains no keys, and ~ stands for the home folder. The exit
code is 1 if there is a problem.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "online", Usage: "also contact the model servers, without sending a key", Destination: &online},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object", Destination: &asJSON},
		},
		Action: command.WithoutArguments(func(ctx context.Context, _ *cli.Command) error {
			d := newDoctor(p)
			d.examine(ctx, online)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return d.report(asJSON)
		}),
	}
}

// A finding is a line of the report.
type finding struct {
	State string `json:"state"`
	Check string `json:"check"`
	Text  string `json:"text"`
	Next  string `json:"next,omitempty"`
}

// The states of a finding.
const (
	healthy = "ok"
	warning = "warning"
	problem = "problem"
)

type doctor struct {
	p        *program.Env
	home     string
	secrets  []string
	findings []finding
}

func newDoctor(p *program.Env) *doctor {
	d := &doctor{p: p}
	if home, err := os.UserHomeDir(); err == nil && filepath.Dir(home) != home {
		d.home = home
	}
	for _, entry := range p.Environ {
		if name, value, _ := strings.Cut(entry, "="); toolenv.IsSecret(name) {
			d.secrets = append(d.secrets, value)
		}
	}
	return d
}

func (d *doctor) add(state, check, next, format string, args ...any) {
	d.findings = append(d.findings, finding{state, check, fmt.Sprintf(format, args...), next})
}

func (d *doctor) examine(ctx context.Context, online bool) {
	d.add(healthy, "version", "", "agents %s, built with %s, on %s/%s", d.p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	c, err := load.Config(d.p)
	if err != nil {
		d.failed("configuration", err)
	} else {
		d.config(c)
		for _, m := range d.agents(ctx, c) {
			d.model(ctx, m, online)
		}
	}
	d.folder("state folder", d.p.StateDir(), true)
	d.folder("cache folder", d.p.CacheDir(), true)
	d.sandbox()
	d.programs()
	d.terminal()
	d.companions()
}

// failed adds an error of a part that other commands report in the same words.
func (d *doctor) failed(check string, err error) {
	hint := ""
	if f, ok := errors.AsType[*failure.Error](err); ok {
		hint = f.Hint
	}
	d.add(problem, check, hint, "%s", err)
}

// config checks the cfg file, its folder and the keys.
func (d *doctor) config(c *config.Config) {
	if c.File.Path != "" {
		d.add(healthy, "cfg file", "", "%s", c.File.Path)
	}
	for _, w := range c.Warnings {
		d.add(warning, "cfg file", "`agents schema cfg` documents every key", "%s", w)
	}
	d.folder("cfg folder", c.Dir.Path, false)
	first := ""
	if len(c.AgentFiles) > 0 {
		first = c.AgentFiles[0].Path
	}
	choice := c.KeysFile(first)
	if choice.Path == "" {
		d.add(healthy, "keys", "", "no keys file; `agents keys set ID` creates one")
		return
	}
	keys, warnings, err := config.ReadKeys(choice.Path)
	if err != nil {
		d.add(problem, "keys", load.KeysHint(err), "read keys (%s): %s", choice.Why, err)
		return
	}
	d.add(healthy, "keys", "", "%s (%s)", choice.Path, choice.Why)
	for _, w := range warnings {
		d.add(warning, "keys", "make it readable for you alone: chmod 600 "+program.ShellQuote(choice.Path), "%s", w)
	}
	for _, id := range keys.IDs() {
		key, _ := keys.Lookup(id)
		d.secrets = append(d.secrets, key.Value.Reveal())
		switch {
		case key.IsPlaceholder():
			d.add(warning, "key", "`agents keys set "+id+"` puts a key there", "%s is still the placeholder", id)
		case len(key.Hosts) == 0:
			d.add(warning, "key", "`agents keys set "+id+" --host HOST` binds it", "%s may be sent to any host", id)
		default:
			d.add(healthy, "key", "", "%s is for %s", id, strings.Join(key.Hosts, ", "))
		}
	}
}

// folder checks a folder that may not exist yet. One that is needed must be writable.
func (d *doctor) folder(check, dir string, needed bool) {
	if dir == "" {
		d.add(problem, check, "set HOME", "none, because there is no home folder")
		return
	}
	info, err := os.Stat(dir)
	nearest := dir
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(nearest) != nearest {
		nearest = filepath.Dir(nearest)
		_, err = os.Stat(nearest)
	}
	switch {
	case err != nil:
		d.add(problem, check, "", "%s: %s", dir, program.WithoutPath(err))
	case info != nil && !info.IsDir():
		d.add(problem, check, "move the file away", "%s is not a folder", dir)
	case needed && program.Writable(nearest) != nil:
		d.add(problem, check, "make it writable for you: chmod u+rwx "+program.ShellQuote(nearest), "%s cannot be written", nearest)
	case info == nil:
		d.add(healthy, check, "", "%s (does not exist yet)", dir)
	case filemode.Of(dir, info)&0o022 != 0:
		d.add(warning, check, "chmod go-w "+program.ShellQuote(dir), "%s can be written by others (mode %o)", dir, info.Mode().Perm())
	default:
		d.add(healthy, check, "", "%s (mode %o)", dir, info.Mode().Perm())
	}
}

// A modelServer is what agents ask.
type modelServer struct{ flavor, url string }

// agents loads every agent and returns the servers of their models.
func (d *doctor) agents(ctx context.Context, c *config.Config) []modelServer {
	files, err := load.Candidates(d.p, c)
	if err != nil {
		d.failed("agent", err)
		return nil
	}
	if len(files) == 0 {
		next := "`agents init` writes one for this folder, `agents init --global` one for all"
		if here := load.Here(); here.Found {
			next = "`agents trust` shows what " + program.Shown(here.Path) + " runs, and asks whether to use it here"
		}
		d.add(warning, "agent", next, "no agent was found here")
	}
	servers := map[modelServer]bool{}
	for _, file := range files {
		l, err := load.File(ctx, d.p, c, file, load.Options{Check: true})
		if l == nil || l.Tree == nil {
			d.failed("agent", err)
			continue
		}
		l.Connect(ctx)
		d.tree(file, l)
		for _, n := range l.Nodes {
			for _, m := range n.Models() {
				if at := m.ServerURL(); at != "" {
					servers[modelServer{m.Flavor, at}] = true
				}
			}
		}
		if err := l.Close(); err != nil {
			d.add(warning, "agent", "", "%s: %s", file, err)
		}
	}
	return slices.SortedFunc(maps.Keys(servers), func(a, b modelServer) int { return cmp.Compare(a.url+a.flavor, b.url+b.flavor) })
}

func (d *doctor) tree(file string, l *load.Tree) {
	tools, mcp := 0, 0
	for _, n := range l.Nodes {
		tools += len(n.Tools)
		mcp += len(n.Servers())
		for _, s := range n.File.Spec.MCPServers {
			d.secrets = slices.AppendSeq(slices.AppendSeq(d.secrets, maps.Values(s.Env)), maps.Values(s.Headers))
		}
	}
	bad := false
	for _, found := range l.Problems {
		check := map[agentfile.Code]string{agentfile.CodeTool: "tool", agentfile.CodeExec: "tool", agentfile.CodeStart: "MCP server", agentfile.CodeServer: "MCP server"}[found.Code]
		check = cmp.Or(check, "agent")
		switch {
		case found.Severity <= agentfile.LeftOut:
			d.add(problem, check, load.ProblemHint(found), "%s", found)
			bad = true
		case found.Severity == agentfile.Warning:
			d.add(warning, check, load.ProblemHint(found), "%s", found)
		}
	}
	if l.Root != nil && !bad {
		n := len(l.Nodes)
		d.add(healthy, "agent", "", "%s (%s): %d %s, %d %s, %d MCP %s", l.Nodes[0].Agent.Slug, file, n, program.Plural(n, "agent"), tools, program.Plural(tools, "tool"), mcp, program.Plural(mcp, "server"))
	}
}

// model checks that the server of a model answers anything at all.
func (d *doctor) model(ctx context.Context, m modelServer, online bool) {
	u, err := url.Parse(m.url)
	if err != nil || u.Host == "" {
		return // a problem of the agent file
	}
	if !online {
		d.add(healthy, "model server", "", "%s at %s was not contacted; use --online to contact it", m.flavor, u.Host)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.url, "/")+"/models", nil)
	if err != nil {
		return
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.add(problem, "model server", "is the server running? modelUrl in the agent file is its address", "%s at %s does not answer: %s", m.flavor, u.Host, err)
		return
	}
	resp.Body.Close()
	d.add(healthy, "model server", "", "%s at %s answers (HTTP %d)", m.flavor, u.Host, resp.StatusCode)
}

func (d *doctor) sandbox() {
	ladder := load.Ladder(d.p)
	text := strings.ReplaceAll(ladder.String(), "\n", "; ")
	if ladder.Rung() == sandbox.Limits {
		d.add(warning, "sandbox", "`agents help sandbox` says what each way needs", "tools cannot be confined here: %s", text)
		return
	}
	d.add(healthy, "sandbox", "", "%s", text)
}

func (d *doctor) programs() {
	for _, c := range []struct{ program, state, of string }{
		{"sh", problem, "tools that are scripts need it"},
		{"bash", warning, "tools in bash need it"},
		{"python3", warning, "many of the shipped tools and tools in Python need it"},
		{"git", warning, "the agents reviewer and guide need it"},
		{"jq", warning, "tools that are scripts often read their arguments with it"},
	} {
		d.found(c.program, c.state, c.of, c.program)
	}
	d.found("podman or docker", warning, "agents and tools in containers need one of them", "podman", "docker")
}

// found reports the first of some programs that is in PATH.
func (d *doctor) found(what, missing, of string, names ...string) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			d.add(healthy, "program", "", "%s: %s", name, path)
			return
		}
	}
	d.add(missing, "program", "install it if you use such tools or agents", "%s is not in PATH: %s", what, of)
}

func (d *doctor) terminal() {
	if !d.p.OutTerm && !d.p.ErrTerm {
		d.add(healthy, "terminal", "", "none: nothing is asked, and progress is printed line by line")
		return
	}
	columns, rows := program.Size()
	text := fmt.Sprintf("%s, %d columns, %d rows, color %t, UTF-8 %t", cmp.Or(d.p.Getenv("TERM"), "TERM is not set"), columns, rows, d.p.Color(d.p.ErrTerm), !d.p.ASCII())
	switch {
	case d.p.ASCII():
		d.add(warning, "terminal", "choose a UTF-8 locale, such as LANG=C.UTF-8", "%s", text)
	case d.p.Getenv("TERM") == "" || d.p.Getenv("TERM") == "dumb":
		d.add(warning, "terminal", "set TERM if the terminal can do more", "%s", text)
	default:
		d.add(healthy, "terminal", "", "%s", text)
	}
}

func (d *doctor) companions() {
	for _, c := range append(serving.Companions, [][2]string{{program.Search, "`agents session search`"}, {program.TUI, "`agents tui`"}, {companion.Program, "some toolboxes of agent files"}}...) {
		path, err := process.Companion(c[0])
		if err != nil {
			d.add(warning, "companion", "`go install github.com/agents-exe/agents/cmd/...@latest` installs it beside agents", "%s is neither beside agents nor in PATH; it is needed for %s", c[0], c[1])
			continue
		}
		d.add(healthy, "companion", "", "%s", path)
	}
}

// report prints the findings, without secrets.
func (d *doctor) report(asJSON bool) error {
	hide := redact.New(d.secrets)
	// Tokens of well-known forms, wherever they come from.
	token := regexp.MustCompile(`\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abp]-|hf_|AKIA|AIza)[A-Za-z0-9_-]{8,}|(?i:bearer) [A-Za-z0-9._~+/=-]{8,}|://[^/\s@]+@`)
	plain := func(text string) string {
		text = token.ReplaceAllStringFunc(hide.String(text), func(found string) string {
			if strings.HasPrefix(found, "://") {
				return "://" + redact.Mark + "@"
			}
			return redact.Mark
		})
		if d.home != "" {
			text = regexp.MustCompile(regexp.QuoteMeta(d.home)+`\b`).ReplaceAllLiteralString(text, "~")
		}
		return strings.Join(strings.Fields(text), " ")
	}
	problems := 0
	var b strings.Builder
	for i := range d.findings {
		f := &d.findings[i]
		f.Text, f.Next = plain(f.Text), plain(f.Next)
		fmt.Fprintf(&b, "%-8s %-13s %s\n", f.State, f.Check, f.Text)
		if f.Next != "" {
			fmt.Fprintf(&b, "%-8s %-13s next: %s\n", "", "", f.Next)
		}
		if f.State == problem {
			problems++
		}
	}
	var err error
	if asJSON {
		err = d.p.WriteJSON(struct {
			Version  string    `json:"version"`
			Platform string    `json:"platform"`
			Problems int       `json:"problems"`
			Findings []finding `json:"findings"`
		}{d.p.Version, runtime.GOOS + "/" + runtime.GOARCH, problems, d.findings})
	} else {
		err = d.p.Print(b.String())
	}
	if err == nil && problems > 0 {
		err = &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("doctor: %d %s", problems, program.Plural(problems, "problem"))}
	}
	return err
}
