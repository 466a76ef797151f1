package tui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A server is the `agents serve` whose agents are shown.
type server struct {
	remote.Server
	agents []remote.Description
	// ended is closed when the process has ended; nil for a server that this program has
	// not started.
	ended chan struct{}
	log   string // the file that it writes
	wrote []byte // all of it, once it has ended
	code  int    // with which it ended
	notes string // what it said while it loaded its agents
	// leave says that nothing of this program needs the server any more: it ends when its runs
	// have ended. It is nil if this program did not start it.
	leave func()
}

// A ServerError is why a server did not start: its exit code and what it wrote.
type ServerError struct {
	Code int
	Text string
}

func (e *ServerError) Error() string { return "the server did not start: " + e.Text }

// startTime is how long a server may take to load its agents.
const startTime = 60 * time.Second

// serving is the line with which a server reports its address.
var serving = regexp.MustCompile(`(?m)^serving agents at (\S+)$`)

// connect returns the server at o.URL, or starts a private one. With flags it is always a
// private one.
func connect(ctx context.Context, o *Options, flags ...string) (*server, error) {
	s := &server{Server: remote.Server{URL: o.URL, Token: o.Token}}
	if len(flags) > 0 {
		s.Server = remote.Server{}
	}
	if s.URL == "" {
		if err := s.start(ctx, o, flags); err != nil {
			return nil, err
		}
	}
	var err error
	if s.agents, err = s.Agents(ctx); err != nil {
		return nil, fmt.Errorf("list the agents of %s: %w", s.URL, err)
	}
	if len(s.agents) == 0 {
		return nil, fmt.Errorf("the server at %s has no agents", s.URL)
	}
	if s.ended != nil {
		following, leave := context.WithCancel(ctx)
		s.leave = leave
		go func() { // a server that is followed is not idle
			for range s.FollowRuns(following) {
			}
		}()
	}
	return s, nil
}

// start starts the private server. It is in a session of its own, so that it and its runs
// survive when the terminal is closed, and ends when it has no clients and no runs.
func (s *server) start(ctx context.Context, o *Options, flags []string) error {
	sweep(o.Dir)
	dir, err := os.MkdirTemp(o.Dir, "agents-tui-*") // 0700
	if err != nil {
		return fmt.Errorf("start a server: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("start a server: %w", err)
	}
	defer log.Close()
	s.log = log.Name()
	args := slices.Concat(o.Args, []string{"serve", "--listen", "unix:" + filepath.Join(dir, "socket"), "--until-idle"}, o.Serve, flags)
	cmd := exec.Command(o.Program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = o.Environ, log, log
	ownSession(cmd)
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("start a server: %w", err)
	}
	s.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why it ended
		s.code = cmd.ProcessState.ExitCode()
		s.wrote, _ = os.ReadFile(s.log) // without it nothing is said
		_ = os.RemoveAll(dir)
		close(s.ended)
	}()
	return s.await(ctx)
}

// sweep removes the folders of servers that have ended after their interface.
func sweep(dir string) {
	old, _ := filepath.Glob(filepath.Join(cmp.Or(dir, os.TempDir()), "agents-tui-*")) // the pattern is well-formed
	for _, folder := range old {
		info, err := os.Stat(folder)
		if err != nil || time.Since(info.ModTime()) < startTime {
			continue
		}
		if c, err := net.Dial("unix", filepath.Join(folder, "socket")); err == nil {
			_ = c.Close() // nothing was written
		} else if remote.Gone(err) {
			_ = os.RemoveAll(folder) // of another user, perhaps
		}
	}
}

func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("the server did not report an address in time"))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var text []byte
	for {
		if t, err := os.ReadFile(s.log); err == nil {
			text = t
		}
		if m := serving.FindSubmatchIndex(text); m != nil {
			s.URL, s.notes = string(text[m[2]:m[3]]), strings.TrimSpace(string(text[:m[0]]))
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ended:
			return &ServerError{max(s.code, 1), lastLines(s.wrote)}
		case <-tick.C:
		}
	}
}

// lastLines is the end of what a server wrote, for a message.
func lastLines(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	if len(text) == 0 {
		return "it wrote nothing"
	}
	return strings.ToValidUTF8(string(text), "")
}

// dead reports whether the server has ended, as far as this program knows.
func (s *server) dead() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.ended: // a nil channel blocks
		return true
	default:
		return false
	}
}

// command runs the program with arguments and returns what it prints, and what it says.
func command(ctx context.Context, o *Options, args ...string) (out []byte, said string, err error) {
	shown := strings.Join(args, " ")
	if o.SessionDir != "" && args[0] == "session" {
		args = slices.Insert(args, 1, "--session-dir", o.SessionDir)
	}
	cmd := exec.CommandContext(ctx, o.Program, slices.Concat(o.Args, args)...)
	cmd.Env = o.Environ
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, "", fmt.Errorf("agents %s: %s", shown, strings.TrimPrefix(lastLines(stderr.Bytes()), "error: "))
	}
	return stdout.Bytes(), stderr.String(), nil
}

// A session is a conversation that is kept, in the list or among what a search found.
type session struct {
	ID, Agent, Prompt, State string
	Folder, Cost             string
	Changed                  time.Time
	Text                     string         // that the search found
	server                   *remote.Server // on which it runs; nil if it does not
	apart                    bool           // see talk
}

// listTime limits the question to a server for its runs.
const listTime = 3 * time.Second

// runs are those in progress, on the server of this program and on those of this machine.
func runs(ctx context.Context, o *Options, own *server) []session {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	var servers []*remote.Server
	if own != nil && !own.dead() {
		servers = append(servers, &own.Server)
	}
	for _, l := range remote.Locals(o.Servers) {
		if own == nil || l.Address != own.URL {
			servers = append(servers, &remote.Server{URL: l.Address, Token: func() string { return o.tokenOf(l.TokenFile) }})
		}
	}
	var list []session
	for _, s := range servers {
		found, _ := s.Runs(ctx) // one that does not answer has none to show
		list = append(list, goingOn(s, found)...)
	}
	return list
}

// goingOn are the runs of a server that have not ended.
func goingOn(s *remote.Server, runs []remote.Run) (list []session) {
	for _, r := range runs {
		if r.State == remote.RunGoing || r.State == remote.RunAsks {
			list = append(list, session{ID: r.Session, Agent: r.Agent, Prompt: r.Prompt, State: r.State, Changed: r.Started, server: s})
		}
	}
	return list
}

// tokenOf is the token in a file, "" if there is none.
func (o *Options) tokenOf(file string) string {
	if file == "" || o.ReadToken == nil {
		return ""
	}
	return o.ReadToken(file)
}

// sessions lists the sessions that changed last, those of this folder first, or those with the words in them.
func sessions(ctx context.Context, o *Options, words string) ([]session, error) {
	if strings.TrimSpace(words) == "" {
		out, _, err := command(ctx, o, "session", "list", "--json", "--limit", "200")
		if err != nil {
			return nil, err
		}
		var list []struct {
			ID, Dir, Agent, Prompt, Outcome, Error string
			Changed                                time.Time
			PID                                    int
			Usage                                  agent.Usage
		}
		if err := json.Unmarshal(out, &list); err != nil {
			return nil, fmt.Errorf("agents session list: %w", err)
		}
		var found []session
		for _, s := range list {
			state := s.Outcome
			switch {
			case s.Error != "":
				continue // it cannot be continued
			case state == "" && s.PID != 0:
				state = "running"
			case state == "":
				state = "unfinished"
			}
			found = append(found, session{ID: s.ID, Agent: s.Agent, Prompt: s.Prompt, State: state, Changed: s.Changed, Folder: s.Dir, Cost: s.Usage.CostText()})
		}
		here, _ := os.Getwd() // without it no session is of this folder
		slices.SortStableFunc(found, func(a, b session) int {
			switch {
			case (a.Folder == here) == (b.Folder == here):
				return 0
			case a.Folder == here:
				return -1
			}
			return 1
		})
		return found, nil
	}
	out, _, err := command(ctx, o, append([]string{"session", "search", "--json", "--limit", "100", "--"}, strings.Fields(words)...)...)
	if err != nil {
		return nil, err
	}
	var hits []struct {
		Session, Prompt string
		RootAgent       string `json:"root_agent"`
		Began           int64
		Snippet         []struct{ Text string }
	}
	if err := json.Unmarshal(out, &hits); err != nil {
		return nil, fmt.Errorf("agents session search: %w", err)
	}
	var found []session
	for _, h := range hits {
		var text strings.Builder
		for _, p := range h.Snippet {
			text.WriteString(p.Text)
		}
		found = append(found, session{ID: h.Session, Agent: h.RootAgent, Prompt: h.Prompt, Changed: time.UnixMilli(h.Began), Text: text.String()})
	}
	return found, nil
}

// fork copies the conversation of an agent of a session up to a turn and returns the id of
// the copy.
func fork(ctx context.Context, o *Options, id string, n *view.Node, turn int) (string, error) {
	args := []string{"session", "fork", "--at", fmt.Sprint(turn)}
	if n.Parent != nil {
		args = append(args, "--sub-agent", n.Session)
	}
	out, _, err := command(ctx, o, append(args, id)...)
	return strings.TrimSpace(string(out)), err
}

// events reads a session that is kept.
func events(ctx context.Context, o *Options, id string, flags ...string) ([]agent.Event, error) {
	out, _, err := command(ctx, o, slices.Concat([]string{"session", "export"}, flags, []string{id})...)
	if err != nil {
		return nil, err
	}
	var list []agent.Event
	for line := range bytes.Lines(out) {
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("agents session export %s: %w", id, err)
		}
		list = append(list, e)
	}
	return list, nil
}
