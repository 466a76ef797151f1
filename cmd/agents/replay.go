package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/trial/replay"
	"github.com/urfave/cli/v3"
)

// replayFlags say what of a replay is real.
type replayFlags struct {
	sinks     sinks.Flags
	schema    string
	set       map[string]string
	keep      keep.Flags
	liveTools bool
	liveModel bool
	liveFrom  int
}

func replayCommand(p *program.Env) *cli.Command {
	f := &replayFlags{}
	return &cli.Command{
		ArgsUsage: "SESSION-or-DIR",
		Description: `SESSION is the id of a session, the beginning of one, latest, or a path; DIR is
what --record of run wrote. Everything comes from the record: no agent file is
read, no model is asked and no tool runs. With --agent-file, the requests that
this agent makes are compared with the recorded ones; the first that differs ends
the replay, and the difference is shown.

The exit code is that of the recorded run, and 1 if a request or call is not in
the record.`,
		Flags: []cli.Flag{
			sinks.OutputFlag(&f.sinks.Output),
			&cli.BoolFlag{Name: "live-tools", Usage: "run the tools; the model's answers are the recorded ones", Destination: &f.liveTools},
			&cli.BoolFlag{Name: "live-model", Usage: "ask the model; a call gets the result that was recorded for the same tool and arguments", Destination: &f.liveModel},
			&cli.IntFlag{Name: "live-from", Usage: "ask the model and run the tools from `TURN` of the agent on", HideDefault: true, Destination: &f.liveFrom},
			command.SetFlag("fill ${NAME} in the agent's prompts as the recorded run did, `NAME=VALUE`; repeatable", &f.set),
			&cli.StringFlag{Name: "output-schema", Usage: "the schema in `FILE` that the recorded run had", Destination: &f.schema},
			&cli.StringFlag{Name: "session-dir", Usage: "look for SESSION in the folder `DIR`, and keep the session of a live replay there", Destination: &f.keep.Dir},
			&cli.BoolFlag{Name: "no-session", Usage: "keep nothing of a live replay", Destination: &f.keep.None},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() != 1 {
				return failure.Usage("`agents session list` shows what there is", "%s: want one SESSION or DIR", c.FullName())
			}
			if err := f.check(p); err != nil {
				return err
			}
			return replaySession(ctx, p, f, c.Args().First(), c.IsSet("live-from"))
		},
	}
}

func (f *replayFlags) check(p *program.Env) error {
	switch {
	case f.keep.None && !f.live():
		return failure.Usage("", "--no-session: only a live replay keeps a session")
	case !f.loads(p) && (f.schema != "" || len(f.set) > 0):
		return failure.Usage("the record holds the prompts of the agent", "--set and --output-schema require --agent-file or a live replay")
	case f.liveTools && f.liveModel, f.liveFrom != 0 && (f.liveTools || f.liveModel):
		return failure.Usage("`agents run` runs everything for real", "--live-tools, --live-model and --live-from exclude each other")
	}
	return nil
}

func (f *replayFlags) live() bool { return f.liveTools || f.liveModel || f.liveFrom != 0 }

// loads reports whether the replay needs an agent: if one was named, or something is
// to be real.
func (f *replayFlags) loads(p *program.Env) bool {
	return f.live() || len(p.Global.AgentFiles) > 0 || p.Global.Agent != ""
}

func replaySession(ctx context.Context, p *program.Env, f *replayFlags, name string, from bool) error {
	answer, err := prompt.ReadAnswerSchema(ctx, f.schema)
	if err != nil {
		return err
	}
	rec, path, err := readRecord(p, name, f.keep.Dir)
	if err != nil {
		return err
	}
	if from && (f.liveFrom < 1 || f.liveFrom > rec.Turns()+1) {
		return failure.Usage(fmt.Sprintf("it has %d turns; %d is the one after the last", rec.Turns(), rec.Turns()+1), "--live-from %d: session %s has no such turn", f.liveFrom, rec.Session)
	}
	var k *keep.Session
	if f.live() { // a replay of a record alone has nothing that is not there already
		if k, err = keep.Open(p, &f.keep); err != nil {
			return err
		}
		defer k.Release()
	}
	player := &replay.Player{Record: rec, LiveTools: f.liveTools, LiveModel: f.liveModel, LiveFrom: f.liveFrom}
	l, err := loadReplay(ctx, p, f, player, path)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.sinks.Whole = f.sinks.Whole || answer != nil
	s, err := sinks.Open(ctx, p, l, f.sinks, nil, cancel)
	if err != nil {
		return err
	}
	root := l.Root
	if answer != nil {
		root = answer.Of(root)
	}
	h := host.New(l.Tree)
	h.Observe, h.Caller = s.Observe, keep.Caller(p)
	if k != nil {
		s.Kept, h.Sessions = true, k.Only
	}
	out, runErr := h.Drive(ctx, root, func(next func() *runner.Runner) (*agent.Outcome, *agent.Session, error) {
		out, err := player.Run(ctx, next)
		return out, player.Session(), err
	})
	err = s.Finish(out, k.Continues(root, player.Session(), runErr))
	return replayed(rec, path, err, runErr)
}

// replayed is the error of a replay. A mismatch with the record is not a failure of the
// agent.
func replayed(rec *replay.Record, path string, err, runErr error) error {
	_, missed := errors.AsType[*replay.Miss](runErr)
	switch {
	case missed:
		return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("replay session %s: %w", rec.Session, runErr)}
	case errors.Is(runErr, replay.ErrUnfinished):
		return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("replay session %s: %w", rec.Session, runErr),
			Hint: fmt.Sprintf("`agents run --session %s` finishes it", program.ShellQuote(path))}
	}
	return err
}

// loadReplay loads the agent of a replay if it needs one. Otherwise the tree is empty.
func loadReplay(ctx context.Context, p *program.Env, f *replayFlags, player *replay.Player, path string) (*load.Tree, error) {
	if !f.loads(p) {
		f.sinks.Whole = true
		return &load.Tree{Tree: &agentfile.Tree{}, Log: &load.ServerLog{}}, nil
	}
	rec := player.Record
	o := load.Options{Agent: rec.Agent, Set: f.set, NoModels: !f.liveModel && f.liveFrom == 0} // and so needs no keys
	if len(p.Global.AgentFiles) == 0 && p.Global.Agent == "" {
		if rec.Source == "" {
			return nil, failure.Usage("name one with --agent-file", "session %s does not name its agent file", rec.Session)
		}
		var err error
		if o.File, o.Suggested, err = keep.AgentOf(p, path, rec.Source); err != nil {
			return nil, err
		}
	}
	l, err := load.Load(ctx, p, o)
	if err != nil {
		return nil, err
	}
	if l.Root.Slug != rec.Agent {
		l.Close()
		return nil, failure.Usage("", "session %s is of agent %s, not of %s", rec.Session, rec.Agent, l.Root.Slug)
	}
	for _, n := range l.Nodes {
		player.Wrap(n.Agent)
	}
	return l, nil
}

func readRecord(p *program.Env, name, dir string) (rec *replay.Record, path string, err error) {
	path, err = recordPath(p, name, dir)
	if err != nil {
		return nil, "", err
	}
	rec, err = replay.New(session.Events(path))
	if err != nil {
		return nil, "", failure.NothingRan(fmt.Errorf("read the record: %w", err), "")
	}
	return rec, path, nil
}

// recordPath finds a session, in a folder of sessions or among all.
func recordPath(p *program.Env, name, dir string) (string, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if _, err := session.Inspect(name); !errors.Is(err, session.ErrNotSession) {
			return name, nil
		}
		return rootSession(name)
	}
	c, err := load.Config(p)
	if err != nil {
		return "", err
	}
	path, err := session.Find(name, load.Paths(load.SessionDirs(p, c, dir))...)
	if err != nil {
		return "", failure.NothingRan(err, "`agents session list` shows what there is")
	}
	return path, nil
}

// rootSession is the one session in a folder that answers no call of another
// process. The record of a nested process has only one that does, the oldest.
func rootSession(dir string) (string, error) {
	list, err := session.List(session.Filter{}, dir)
	if err != nil {
		return "", failure.NothingRan(err, "")
	}
	var roots []string
	var oldest session.Info
	for _, info := range list {
		if info.Err == nil && info.Parent == "" {
			roots = append(roots, info.Path)
		}
		if oldest.Path == "" || info.Started.Before(oldest.Started) {
			oldest = info
		}
	}
	switch {
	case len(roots) == 0 && oldest.Path != "":
		return oldest.Path, nil
	case len(roots) == 0:
		return "", failure.NothingRan(fmt.Errorf("there is no session in %s", dir), "`agents run --record DIR` writes one")
	case len(roots) == 1:
		return roots[0], nil
	}
	for i, path := range roots {
		roots[i] = filepath.Join(dir, filepath.Base(path))
	}
	const most = 5
	more := ""
	if len(roots) > most {
		more = fmt.Sprintf(" and %d more", len(roots)-most)
		roots = roots[:most]
	}
	return "", failure.Usage("name one of them", "there are several sessions in %s, the latest first: %s%s", dir, strings.Join(roots, ", "), more)
}
