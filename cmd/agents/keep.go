package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/mcpserver"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/urfave/cli/v3"
	"golang.org/x/sys/unix"
)

// keepFlags say where the session of a run is kept, and which one goes on.
type keepFlags struct {
	session string
	last    bool
	dir     string
	file    string
	none    bool
	record  string
}

func (k *keepFlags) flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "session", Category: sessionFlags, Usage: "go on with session `ID`, or the beginning of its id; without a prompt, finish what it left unfinished", Destination: &k.session},
		&cli.BoolFlag{Name: "continue", Category: sessionFlags, Usage: "go on with the latest session, of the agent file if one is named", Destination: &k.last},
		&cli.StringFlag{Name: "session-file", Category: sessionFlags, Usage: "keep this session in `FILE` alone, and go on with it if it is there", Destination: &k.file},
		&cli.StringFlag{Name: "record", Category: sessionFlags, Usage: "keep the sessions of this run, and of `agents` that its tools run, in the folder `DIR`, for replay", Destination: &k.record},
	}, k.folders()...)
}

// folders are the flags for more than one session.
func (k *keepFlags) folders() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session-dir", Category: sessionFlags, Usage: "keep sessions in the folder `DIR`, and look for them there", Destination: &k.dir},
		&cli.BoolFlag{Name: "no-session", Category: sessionFlags, Usage: "keep nothing on disk", Destination: &k.none},
	}
}

// sessionFlags is the category of the flags in the help.
const sessionFlags = "session"

func (k *keepFlags) check() error {
	switch {
	case k.record != "" && (k.none || k.session != "" || k.last || k.dir != "" || k.file != ""):
		return usage("", "--record goes with no other flag about sessions")
	case k.none && (k.session != "" || k.last || k.dir != "" || k.file != ""):
		return usage("", "--no-session goes with no other flag about sessions")
	case k.session != "" && k.last:
		return usage("", "--session and --continue exclude each other")
	case k.file != "" && (k.session != "" || k.last || k.dir != ""):
		return usage("", "--session-file goes with no other flag about sessions")
	}
	return nil
}

// A kept is the session of a run on disk.
type kept struct {
	*session.Journal
	past  *session.Past // nil for a new session
	again string        // the flag that goes on with it, if it is not --session ID
	dir   string        // the flag that finds it, if one is needed

	agentFile, suggested string // see loadOptions
	record               string // the folder of --record
}

// loadOptions are those of the tree that answers in the session.
func (k *kept) loadOptions() loadOptions {
	if k == nil {
		return loadOptions{}
	}
	return loadOptions{file: k.agentFile, suggested: k.suggested, record: k.record}
}

// sessionDirs are where sessions are kept: new ones in the first.
func (p *program) sessionDirs(c *config.Config, dir string) []config.Place {
	if dir != "" {
		return []config.Place{{Path: dir, Why: "--session-dir"}}
	}
	var list []config.Place
	state := p.stateDir()
	switch {
	case c.File.SessionDir != "":
		list = append(list, config.Place{Path: c.File.SessionDir, Why: "sessions.writeLocation in " + c.File.Path})
	case state != "":
		list = append(list, config.Place{Path: filepath.Join(state, "sessions"), Why: "XDG_STATE_HOME, else ~/.local/state"})
	default:
		list = append(list, config.Place{Why: "there is no home folder"})
	}
	for _, d := range c.File.SessionDirs {
		list = append(list, config.Place{Path: d, Why: "sessions.readLocations in " + c.File.Path})
	}
	return list
}

// stateDir is the folder of what outlasts a run, "" if there is no home folder.
func (p *program) stateDir() string {
	home := p.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(home) {
		h, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(h) {
			return ""
		}
		home = filepath.Join(h, ".local", "state")
	}
	return filepath.Join(home, "agents")
}

func paths(places []config.Place) []string {
	var list []string
	for _, p := range places {
		if p.Path != "" {
			list = append(list, p.Path)
		}
	}
	return list
}

// keep opens the session of a run. It is nil if none is kept. The session of an
// earlier run names its agent file, which counts if none is named.
func (p *program) keep(k *keepFlags) (*kept, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	if record, err := p.recordPlace(k); err != nil || record.Path != "" {
		return p.beginRecord(record, err)
	}
	if k.none {
		return nil, nil
	}
	kept, err := p.openSession(k)
	if kept != nil && k.dir != "" {
		kept.dir = " --session-dir " + k.dir
	}
	return kept, err
}

func (p *program) openSession(k *keepFlags) (*kept, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	dirs := p.sessionDirs(c, k.dir)
	path := k.file
	switch {
	case k.file != "":
		if info, err := os.Stat(k.file); errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return &kept{Journal: session.CreateFile(k.file, newOptions()), again: "--session-file " + k.file}, nil
		}
	case k.session != "":
		path, err = session.Find(k.session, paths(dirs)...)
	case k.last:
		path, err = p.latest(paths(dirs))
	default:
		return p.newSession(dirs[0], k.dir != "" || c.File.SessionDir != "")
	}
	if err != nil {
		return nil, nothingRan(fmt.Errorf("find the session: %w", err), "`agents session list` shows what there is")
	}
	again := ""
	switch {
	case k.file != "":
		again = "--session-file " + k.file
	case strings.ContainsRune(k.session, filepath.Separator):
		again = "--session " + k.session
	}
	return p.reopen(path, again)
}

// latest is the session that changed last: of all, or of the agent file that was
// named.
func (p *program) latest(dirs []string) (string, error) {
	var of string
	if files := p.global.agentFiles; len(files) == 1 {
		file, _, err := agentfile.Read(files[0])
		if err != nil {
			return "", err
		}
		of = file.Real
	}
	list, err := session.List(session.Filter{Limit: 1, Want: func(i *session.Info) bool {
		return i.Err == nil && i.Parent == "" && (of == "" || i.Source == of) && (p.global.agent == "" || i.Agent == p.global.agent)
	}}, dirs...)
	switch {
	case len(list) > 0:
		return list[0].Path, nil
	case err != nil:
		return "", err
	}
	return "", errors.New("there is none yet")
}

// newOptions note the working folder in a new session.
func newOptions() session.Options {
	dir, _ := os.Getwd() // a session without it is found by its id
	return session.Options{Dir: dir}
}

// newSession begins a session in a folder. Where nobody asked for the folder, a
// place that cannot be written keeps nobody from running.
func (p *program) newSession(place config.Place, asked bool) (*kept, error) {
	if place.Path == "" {
		p.warn([]string{"no session is kept: " + place.Why})
		return nil, nil
	}
	switch err := writable(place.Path); {
	case err == nil:
		return &kept{Journal: session.Create(place.Path, newOptions())}, nil
	case !asked && (errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)):
		p.warn([]string{"no session is kept: " + err.Error()})
		return nil, nil
	default:
		return nil, nothingRan(fmt.Errorf("keep the session (%s): %w", place.Why, err), hintElsewhere)
	}
}

// writable says why a folder, which need not be there, cannot be written.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return &os.PathError{Op: "write", Path: dir, Err: syscall.ENOTDIR}
		case err == nil:
			if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
				return &os.PathError{Op: "write", Path: dir, Err: err}
			}
			return nil
		case !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// reopen opens a session to go on with it, and ends what its process left
// running.
func (p *program) reopen(path, again string) (*kept, error) {
	j, past, err := session.Open(path, session.Options{})
	if err != nil {
		hint := ""
		if _, busy := errors.AsType[*session.InUseError](err); busy {
			hint = "wait for it, or end that process"
		}
		return nil, nothingRan(err, hint)
	}
	k := &kept{Journal: j, past: past, again: again}
	if k.agentFile, k.suggested, err = p.agentOf(path, past.Session.Source); err != nil {
		j.Close()
		return nil, err
	}
	return k, nil
}

// agentOf is the agent file that a session names, if the command line names none.
// A session that this program did not keep has no say in what is run: its file is
// only suggested.
func (p *program) agentOf(path, source string) (file, suggested string, err error) {
	if len(p.global.agentFiles) > 0 || p.global.agent != "" || source == "" {
		return "", "", nil
	}
	c, err := p.config()
	if err != nil {
		return "", "", err
	}
	own, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", "", err
	}
	for _, dir := range paths(p.sessionDirs(c, "")) {
		if filepath.Clean(dir) == own {
			return source, "", nil
		}
	}
	return "", source, nil
}

// unfinished reports whether an earlier run was left in its middle.
func (k *kept) unfinished() bool {
	return k != nil && k.past != nil && k.past.Session.Unfinished()
}

// reap ends what calls of the earlier process left running. If that process is
// alive, the session is a copy of its session, and nothing was left.
func (k *kept) reap(p *program) {
	if pid := k.past.OwnerPID; pid != 0 {
		if len(k.past.Started) > 0 {
			p.warn([]string{fmt.Sprintf("this is a copy of a session that process %d still runs: the processes of its calls are not ended", pid)})
		}
		return
	}
	ended, alive := 0, 0
	for _, key := range k.past.Started {
		e, a := process.EndLeft(key)
		ended, alive = ended+e, alive+a
	}
	if ended+alive > 0 && !p.global.quiet {
		p.warn([]string{fmt.Sprintf("%d processes that the earlier run left running were ended, %d could not be", ended, alive)})
	}
}

// attach makes the runner go on with the session and write into it.
func (k *kept) attach(p *program, r *agent.Runner) error {
	r.Parent = p.getenv(process.MarkVariable)
	if k == nil {
		return nil
	}
	r.Journal = k.Journal
	if p.journal != nil {
		r.Journal = p.journal(k.Journal)
	}
	r.NewID = k.NewID
	if k.past == nil {
		return nil
	}
	if was := k.past.Session.Agent; was != "" && was != r.Agent.Slug {
		return usage("name the agent file of that session with --agent-file", "session %s is of agent %s, not of %s", k.ID(), was, r.Agent.Slug)
	}
	r.Session, r.Nested, r.Before = k.past.Session, k.past.Nested, k.past.Before
	r.Parent = k.past.Session.Parent
	k.reap(p)
	return nil
}

// close closes the session, if it is still open.
func (k *kept) close() {
	if k != nil {
		k.Close()
	}
}

// finish closes the session. The error of a run that can go on says how.
func (k *kept) finish(r *agent.Runner, err error) error {
	if k == nil {
		return err
	}
	closeErr := k.Close()
	switch {
	case err == nil && closeErr != nil:
		return fmt.Errorf("%w: %w", agent.ErrJournal, closeErr)
	case err == nil:
		return nil
	}
	if r.Session == nil || r.Session.Turn == 0 {
		return err // nothing is lost
	}
	command := "agents run " + cmp.Or(k.again, "--session "+filepath.Base(k.Path())+k.dir)
	if k.again+k.dir != "" && r.Agent.Source != "" {
		command += " --agent-file " + shown(r.Agent.Source)
	}
	return &resumable{err, command}
}

// A resumable is the error of a run whose session can go on.
type resumable struct {
	error
	command string
}

func (r *resumable) Unwrap() error { return r.error }

// ask runs the prompt, or what the session left unfinished.
func (k *kept) ask(ctx context.Context, r *agent.Runner, prompt *agent.Message) (*agent.Outcome, error) {
	if prompt == nil {
		return r.Resume(ctx)
	}
	return r.Run(ctx, *prompt)
}

// keeper is how the runs of an MCP server are kept: on disk, where other runs
// are. It is nil if they are not.
func (s *service) keeper() (func(mcpserver.Agent, string, *agent.Runner) (func(), error), error) {
	if s.flags.keep.none {
		return nil, nil
	}
	dirs := s.p.sessionDirs(s.trees[0].config, s.flags.keep.dir)
	first, err := s.p.newSession(dirs[0], s.flags.keep.dir != "" || s.trees[0].config.File.SessionDir != "")
	if first == nil {
		return nil, err
	}
	return func(a mcpserver.Agent, id string, r *agent.Runner) (func(), error) {
		k := &kept{Journal: session.Create(dirs[0].Path, newOptions())}
		if id != "" {
			var err error
			if k, err = s.earlier(paths(dirs), a, id); err != nil {
				return nil, err
			}
		}
		r.Redact = s.hideEvent
		if err := k.attach(s.p, r); err != nil {
			k.close()
			return nil, err
		}
		return k.close, nil
	}, nil
}

// earlier opens the session that a client names. Nobody can guess an id, so its
// whole is wanted; that others are there is not said.
func (s *service) earlier(dirs []string, a mcpserver.Agent, id string) (*kept, error) {
	unknown := fmt.Errorf("%s has no session %q", a.Name, id)
	if !session.ValidID(id) {
		return nil, unknown
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, id)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		j, past, err := session.Open(path, session.Options{})
		if _, busy := errors.AsType[*session.InUseError](err); busy {
			return nil, fmt.Errorf("session %q is in use by another call", id)
		}
		if err != nil {
			return nil, err
		}
		if past.Session.ID != id || past.Session.Agent != a.Agent.Slug || past.Session.Source != a.Agent.Source {
			j.Close()
			return nil, unknown
		}
		return &kept{Journal: j, past: past}, nil
	}
	return nil, unknown
}
