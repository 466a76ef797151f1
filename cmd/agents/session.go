package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/transcript"
	"github.com/urfave/cli/v3"
)

// A sessions is what the commands on sessions share.
type sessions struct {
	*program
	dir string // --session-dir
}

func sessionCommand(p *program) *cli.Command {
	return &cli.Command{
		Description: `ID is a session's id, the beginning of one or of its random part, "latest", or the path
of a session. Commands that only read also take a file that export or edit wrote, or
one of agents-exe.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: sessionDir, Usage: "look for sessions in the folder `DIR`, and write new ones there"}},
	}
}

const sessionDir = "session-dir"

// sessions are those that a command works on.
func (p *program) sessions(c *cli.Command) *sessions {
	return &sessions{program: p, dir: c.String(sessionDir)}
}

// folders are where sessions are looked for; new ones are written to the first.
func (s *sessions) folders() ([]string, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	list := paths(s.sessionDirs(c, s.dir))
	if len(list) == 0 {
		return nil, usage("--session-dir names a folder", "there is no home folder to keep sessions in")
	}
	return list, nil
}

const listHint = "`agents session list` shows what there is"

// find returns the path of a session.
func (s *sessions) find(name string) (string, error) {
	dirs, err := s.folders()
	if err != nil {
		return "", err
	}
	path, err := session.Find(name, dirs...)
	if err != nil {
		return "", nothingRan(err, listHint)
	}
	return path, nil
}

// A source is the events of a session, which can be read several times.
type source = iter.Seq2[agent.Event, error]

// open finds a session that is to be read.
func (s *sessions) open(name string) (source, error) {
	path, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if foreign(path) {
		return fileEvents(path), nil
	}
	return session.Events(path), nil
}

// foreign reports whether path is a file that is no journal.
func foreign(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const journal = `{"kind":"journal"`
	start := make([]byte, len(journal))
	n, _ := io.ReadFull(f, start)
	return !bytes.Equal(start[:n], []byte(journal)[:n]) || n == 0
}

// fileEvents reads a file of events, or of agents-exe.
func fileEvents(path string) source {
	return func(yield func(agent.Event, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		defer f.Close()
		for e, err := range transcript.Read(f) {
			if err != nil {
				err = fmt.Errorf("read %s: %w", path, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// summary reads a session for what is said of it as a whole. Damage shows up again
// when it is read for its contents.
func summary(events source) (*transcript.Summary, error) {
	sum, err := transcript.Summarize(events)
	if err != nil && sum.ID == "" {
		return nil, notASession(err)
	}
	if sum.ID == "" {
		return nil, nothingRan(errors.New("the session is empty"), "")
	}
	return sum, nil
}

// notASession is the error of something that cannot be read at all.
func notASession(err error) error {
	hint := ""
	if errors.Is(err, session.ErrNotSession) {
		hint = listHint
	}
	return nothingRan(err, hint)
}

// damaged is the error of a session that could be read in part.
func damaged(err error) error {
	hint := ""
	var d *session.DamageError
	if errors.As(err, &d) && d.Turns > 0 {
		hint = fmt.Sprintf("`agents session fork ID --at %d` keeps what is whole", d.Turns)
	}
	return &failure{code: exitFailed, err: err, hint: hint}
}

// output is stdout. On a terminal nothing that is written to it acts on the
// terminal; flush writes what is left.
func (p *program) output() (w io.Writer, flush func() error) {
	if !p.outTerm {
		return p.out, func() error { return nil }
	}
	return p.cleanOutput()
}

// cleanOutput is stdout for text that people read: it gets to a terminal through
// head and less too.
func (p *program) cleanOutput() (w io.Writer, flush func() error) {
	c := &cleaned{w: p.out}
	return c, func() error {
		_, err := io.WriteString(p.out, c.clean.Flush())
		return err
	}
}

// cleaned passes text on without what acts on a terminal.
type cleaned struct {
	w     io.Writer
	clean observe.Cleaner
}

func (c *cleaned) Write(b []byte) (int, error) {
	if _, err := io.WriteString(c.w, c.clean.Clean(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// line is text on one line without anything that acts on a terminal, and at most n
// characters of it.
func line(text string, n int) string {
	text = strings.Join(strings.Fields(observe.Clean(text)), " ")
	if r := []rune(text); len(r) > n {
		return string(r[:max(n-1, 0)]) + "…"
	}
	return text
}

// sessionIDs are the sessions for completion. Only names are looked at.
func (p *program) sessionIDs() []string {
	dirs, err := (&sessions{program: p}).folders()
	if err != nil {
		return nil
	}
	ids := []string{session.Latest}
	for _, dir := range dirs {
		found, _ := os.ReadDir(dir)
		for _, e := range found {
			if e.IsDir() && session.ValidID(e.Name()) {
				ids = append(ids, e.Name())
			}
		}
	}
	return ids
}

// write is where new sessions are written.
func (s *sessions) write() (string, error) {
	dirs, err := s.folders()
	if err != nil {
		return "", err
	}
	return dirs[0], nil
}

// keep writes events as a new session and prints its id.
func (s *sessions) keep(events source) error {
	dir, err := s.write()
	if err != nil {
		return err
	}
	id := session.NewID()
	if err := session.Copy(session.Create(dir, newOptions()), session.Rename(events, id)); err != nil {
		return nothingRan(fmt.Errorf("write the session: %w", err), "")
	}
	_, err = fmt.Fprintln(s.out, id)
	return err
}

func sessionRmCommand(p *program) *cli.Command {
	return &cli.Command{
		ArgsUsage: "ID...",
		Action: func(_ context.Context, c *cli.Command) error {
			if !c.Args().Present() {
				return usage("`agents session rm --help` says more", "session rm: the id is missing")
			}
			// All are found before the first is removed: "latest" means one session.
			var paths []string
			for _, name := range c.Args().Slice() {
				path, err := p.sessions(c).find(name)
				if err != nil {
					return err
				}
				paths = append(paths, path)
			}
			var errs []error
			for _, path := range paths {
				if err := session.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					errs = append(errs, err)
				}
			}
			if err := errors.Join(errs...); err != nil {
				return &failure{code: exitFailed, err: err, hint: busyHint(err)}
			}
			return nil
		},
	}
}

func busyHint(err error) string {
	if _, busy := errors.AsType[*session.InUseError](err); busy {
		return "wait for it, or end that process"
	}
	return ""
}

func sessionForkCommand(p *program) *cli.Command {
	var at int
	return &cli.Command{
		ArgsUsage: "ID",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "at", Usage: "the last `TURN` of the copy; all of them if it is not given", HideDefault: true, Destination: &at}},
		Action: func(_ context.Context, c *cli.Command) error {
			name, err := oneArgument(c, "the session's id")
			if err != nil {
				return err
			}
			s := p.sessions(c)
			events, err := s.open(name)
			if err != nil {
				return err
			}
			if c.IsSet("at") {
				events = session.UpTo(events, at)
			}
			return s.keep(events)
		},
	}
}
