// Package keep stores the session of a run: a new one, or an earlier one that it continues.
package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// A Session is the session of a run on disk.
type Session struct {
	*host.Kept
	again string // the flag that continues it, if it is not --session ID
	dir   string // the flag that finds it, if one is needed

	agentFile, suggested string // see loadOptions
	record               string // the folder of --record
}

// LoadOptions are the options for the tree that continues the session.
func (k *Session) LoadOptions() load.Options {
	if k == nil {
		return load.Options{}
	}
	o := load.Options{File: k.agentFile, Suggested: k.suggested, Record: k.record}
	// An imported session belongs to the agent that continues it.
	if k.Past != nil && k.Past.Session.Agent != transcript.ImportedAgent {
		o.Agent = k.Past.Session.Agent
	}
	return o
}

// Open opens the session of a run, nil if none is kept. If the command line names no agent
// file, the agent file recorded in a continued session is used.
func Open(p *program.Env, k *Flags) (*Session, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	if record, err := recordPlace(p, k); err != nil || record.Path != "" {
		return beginRecord(p, record, err)
	}
	if k.None {
		return nil, nil
	}
	kept, err := openSession(p, k)
	if kept != nil && k.Dir != "" {
		kept.dir = " --session-dir " + program.ShellQuote(k.Dir)
	}
	return kept, err
}

func openSession(p *program.Env, k *Flags) (*Session, error) {
	c, err := load.Config(p)
	if err != nil {
		return nil, err
	}
	dirs := load.SessionDirs(p, c, k.Dir)
	var path string
	switch {
	case k.file != "":
		if info, err := os.Stat(k.file); errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return &Session{Kept: New(p, session.CreateFile(k.file, sessions.NewOptions())), again: "--session-file " + program.ShellQuote(k.file)}, nil
		}
		if path, err = sessions.ImportFile(p, k.file); err != nil {
			err = failure.NothingRan(err, listHint)
		}
	case k.Continues():
		path, err = Find(p, k)
	default:
		if k.Dir == "" {
			if err := prune(p, dirs[0].Path); err != nil {
				return nil, err
			}
		}
		kept, err := NewSession(p, dirs[0], k.Dir != "" || c.File.SessionDir != "")
		if kept != nil && k.Began != "" {
			kept.Journal = session.Create(dirs[0].Path, session.Options{Dir: k.Began})
		}
		return kept, err
	}
	if err != nil {
		return nil, err
	}
	again := ""
	switch {
	case k.file != "":
		again = "--session-file " + program.ShellQuote(k.file)
	case strings.ContainsRune(k.Session, filepath.Separator):
		again = "--session " + program.ShellQuote(k.Session)
	}
	return reopen(p, path, again)
}

const listHint = "`agents session list` shows what there is"

// Find returns the path of the session that the flags continue.
func Find(p *program.Env, k *Flags) (path string, err error) {
	c, err := load.Config(p)
	if err != nil {
		return "", err
	}
	dirs := load.Paths(load.SessionDirs(p, c, k.Dir))
	if k.Session != "" {
		path, err = session.Find(k.Session, dirs...)
	} else if path, err = latest(p, c, k.lastAny, dirs); err != nil {
		err = fmt.Errorf("find the session: %w", err)
	}
	if err != nil {
		return "", failure.NothingRan(err, listHint)
	}
	return path, nil
}

// latest returns the session that changed last, among those that began in this folder
// (or, with anywhere, in any) and that belong to the agent file named by a flag.
func latest(p *program.Env, c *config.Config, anywhere bool, dirs []string) (string, error) {
	var of string
	if len(p.Global.AgentFiles) == 1 {
		file, _, err := agentfile.Read(c.AgentFiles[0].Path)
		if err != nil {
			return "", err
		}
		of = file.Real
	}
	filter := session.Filter{Limit: 1, Want: func(i *session.Info) bool {
		return i.Err == nil && i.Parent == "" && (of == "" || i.Source == of) && (p.Global.Agent == "" || i.Agent == p.Global.Agent)
	}}
	if !anywhere {
		var err error
		if filter.Dir, err = os.Getwd(); err != nil {
			return "", err
		}
	}
	list, err := session.List(filter, dirs...)
	switch {
	case len(list) > 0:
		return list[0].Path, nil
	case err != nil:
		return "", err
	}
	which := ""
	if of != "" {
		which = " of " + program.Shown(of)
	}
	if !anywhere {
		return "", fmt.Errorf("no session%s began in this folder; --continue-any continues the latest of all folders", which)
	}
	return "", fmt.Errorf("there is no session%s in %s", which, strings.Join(dirs, ", "))
}

// NewSession begins a session in a folder. If the folder cannot be written, that is an
// error if asked is set, because the user named it, and otherwise only a warning.
func NewSession(p *program.Env, place config.Place, asked bool) (*Session, error) {
	if place.Path == "" {
		p.Warn("no session is kept: " + place.Why)
		return nil, nil
	}
	switch err := writable(place.Path); {
	case err == nil:
		return &Session{Kept: New(p, session.Create(place.Path, sessions.NewOptions()))}, nil
	case !asked && (errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)):
		p.Warn(fmt.Sprintf("no session is kept in %s: %v", program.Shown(place.Path), err))
		return nil, nil
	default:
		return nil, failure.NothingRan(fmt.Errorf("keep the session (%s): %w", place.Why, err), failure.HintElsewhere)
	}
}

// writable returns an error if a folder, which may not exist yet, cannot be written.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return &os.PathError{Op: "write", Path: dir, Err: syscall.ENOTDIR}
		case err == nil:
			if err := program.Writable(dir); err != nil {
				return &os.PathError{Op: "write", Path: dir, Err: err}
			}
			return nil
		case !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// Reopen opens the session at path to continue it.
func Reopen(p *program.Env, path string) (*Session, error) { return reopen(p, path, "") }

func reopen(p *program.Env, path, again string) (*Session, error) {
	j, past, err := session.Open(path, session.Options{})
	if err != nil {
		return nil, failure.NothingRan(err, sessions.BusyHint(err))
	}
	k := &Session{Kept: Earlier(p, j, past), again: again}
	if k.agentFile, k.suggested, err = AgentOf(p, path, past.Session.Source); err != nil {
		j.Close()
		return nil, err
	}
	return k, nil
}

// AgentOf returns the agent file that a session names, if the command line names none.
// A session from another folder must not decide what is executed: its file is only
// suggested. A folder that a cfg file names may also hold a stranger's sessions, so
// their agent file must be trusted.
func AgentOf(p *program.Env, path, source string) (file, suggested string, err error) {
	if len(p.Global.AgentFiles) > 0 || p.Global.Agent != "" || source == "" {
		return "", "", nil
	}
	c, err := load.Config(p)
	if err != nil {
		return "", "", err
	}
	own, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", "", err
	}
	trusted := load.Trusted(p, source) != nil
	for _, f := range c.AgentFiles {
		if f.Discovered && f.Path == source && !trusted {
			return "", source, nil
		}
	}
	for _, dir := range load.SessionDirs(p, c, "") {
		if filepath.Clean(dir.Path) == own && (trusted || dir.Path == filepath.Join(p.StateDir(), "sessions")) {
			return source, "", nil
		}
	}
	return "", source, nil
}

// Unfinished reports whether the last run of the session did not end.
func (k *Session) Unfinished() bool {
	return k != nil && k.Past != nil && k.Past.Session.Unfinished()
}

// New reports whether no session is continued.
func (k *Session) New() bool { return k == nil || k.Past == nil || k.Past.Session.ID == "" }

// New returns the session of a run that is written to j.
func New(p *program.Env, j *session.Journal) *host.Kept {
	return &host.Kept{Journal: j, Wrap: p.Journal, Warn: func(text string) { p.Mention(text) }}
}

// Earlier returns the session of a run that continues past.
func Earlier(p *program.Env, j *session.Journal, past *session.Past) *host.Kept {
	k := New(p, j)
	k.Past, k.Any = past, past.Session.Agent == transcript.ImportedAgent
	return k
}

// Caller returns the call, in another process, that this process answers.
func Caller(p *program.Env) host.Caller {
	depth, _ := strconv.Atoi(p.Getenv(toolenv.Depth)) // 0 for what is not a number
	return host.Caller{Key: p.Getenv(process.MarkVariable), Depth: depth, Traceparent: p.Getenv(toolenv.Trace)}
}

// Only returns the session, for a host that has only one run: see host.Host.Sessions.
func (k *Session) Only(context.Context, host.Agent, string) (host.Session, error) {
	if k == nil {
		return nil, nil
	}
	return k, nil
}

// Attach implements host.Session.
func (k *Session) Attach(r *runner.Runner) error {
	err := k.Kept.Attach(r)
	if other, ok := errors.AsType[*host.OtherAgentError](err); ok {
		return failure.Usage("name the agent file of that session with --agent-file", "%s", other)
	}
	return err
}

// Release closes the session, if it is still open.
func (k *Session) Release() {
	if k != nil {
		k.Journal.Close()
	}
}

// Ask waits until the run c of the agent a, which h has started, has ended and its session is
// closed.
func (k *Session) Ask(h *host.Host, a *agent.Agent, c *runner.Channel) (*agent.Outcome, error) {
	out, err := c.Wait()
	closeErr := h.Wait()
	if err == nil { // the run has ended
		return out, closeErr
	}
	return out, k.Continues(a, c.Session(), err)
}

// Continues adds the command that continues a run to its error, if the run can be continued.
func (k *Session) Continues(a *agent.Agent, conversation *agent.Session, err error) error {
	if k == nil || err == nil || conversation.Turn == 0 && conversation.Stopped == nil { // nothing is lost
		return err
	}
	command := "agents run " + cmp.Or(k.again, "--session "+filepath.Base(k.Path())+k.dir)
	if k.again+k.dir != "" && a != nil && a.Source != "" {
		command += " --agent-file " + program.ShellQuote(program.Shown(a.Source))
	}
	return &failure.Resumable{Err: err, Command: command}
}

// pruneEvery is how often the sessions in a folder are pruned: with very many, that takes seconds.
const pruneEvery = time.Hour

// prune removes the local sessions in a folder that exceed the limits in the environment. The
// limits are a variable and not a key of a cfg file, because the cfg file of a tree must not
// remove sessions.
func prune(p *program.Env, dir string) error {
	text := p.Getenv(program.EnvKeepSessions)
	if text == "" || p.Getenv(process.MarkVariable) != "" {
		return nil
	}
	limits, err := session.ParseKeep(text)
	if err != nil {
		return failure.Usage("", "%s: %v", program.EnvKeepSessions, err)
	}
	last := filepath.Join(dir, ".pruned")
	if info, err := os.Lstat(last); err == nil && time.Since(info.ModTime()) < pruneEvery {
		return nil
	}
	_ = os.Remove(last)
	if os.WriteFile(last, nil, 0o600) != nil {
		return nil // there is no folder yet, or it cannot be changed
	}
	limits.Local = true
	removed, _, err := limits.Prune(context.Background(), dir, nil)
	if removed > 0 {
		p.Note("%s=%s: %d %s removed", program.EnvKeepSessions, text, removed, program.Plural(removed, "session"))
	}
	if err != nil {
		p.Warn(program.EnvKeepSessions + ": " + err.Error())
	}
	return nil
}

// recordPlace returns the folder of --record, or that of the run that started this process
// as a tool. A record holds the sessions of the whole tree, so the latter applies
// even with --no-session; only a continued session stays where it is.
func recordPlace(p *program.Env, k *Flags) (config.Place, error) {
	place := config.Place{Path: k.record, Why: "--record"}
	if place.Path == "" && !k.Continues() && k.file == "" {
		place = config.Place{Path: p.Getenv(program.EnvRecord), Why: program.EnvRecord}
	}
	if place.Path == "" {
		return config.Place{}, nil
	}
	var err error
	place.Path, err = filepath.Abs(place.Path)
	return place, err
}

// beginRecord begins a session in the folder of a record.
func beginRecord(p *program.Env, place config.Place, err error) (*Session, error) {
	if err == nil {
		err = writable(place.Path)
	}
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("record the run (%s): %w", place.Why, err), "")
	}
	return &Session{Kept: New(p, session.Create(place.Path, sessions.NewOptions())), dir: " --session-dir " + program.ShellQuote(place.Path), record: place.Path}, nil
}
