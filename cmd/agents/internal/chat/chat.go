// Package chat is a conversation with an agent: at a terminal it starts agents-tui; elsewhere
// it reads lines from standard input and writes to standard output. Editors have several
// conversations over the Agent Client Protocol.
//
// A conversation is one session. Each message begins a run of it, which the chat holds
// through its channel, as any other program would. Between runs nothing has the session
// open, so everything that works on sessions works on the conversation.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/keep"
	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/cmd/agents/internal/sinks"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/acpserver"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A chat is one conversation.
type chat struct {
	p *program.Env
	runs.Flags
	out    io.Writer // for what a person reads
	person *ask.Person

	tree *load.Tree
	logs *sinks.Sinks
	asks func(tool string) bool // which tools use the terminal
	// kept is the session of the first run, if it is new. After that path is the
	// session's; it is "" if none is kept.
	kept   *keep.Session
	path   string
	memory *host.Memory // of a conversation that is not kept
	past   string       // its session
	// The session had so many turns when this chat closed it.
	closed string
	turns  int
	// outputs are those of commands, which go along with the next message.
	outputs []string
	shorten bool // the conversation before the next request
	// answer, if it is not nil, gets the next line, which answers a question of a command.
	answer  func(ctx context.Context, text string) (string, error)
	total   agent.TotalUsage   // of the conversation since the chat began
	last    error              // of the last run
	running *run               // nil if no run of this conversation is in progress
	editor  *acpserver.Opening // nil if the conversation is not with an editor
}

// open opens the session and loads the agent.
func (c *chat) open(ctx context.Context) error {
	kept, err := keep.Open(c.p, &c.Keep)
	if err != nil {
		return err
	}
	if err := c.load(ctx, kept.LoadOptions()); err != nil {
		kept.Release()
		return err
	}
	if kept.New() {
		c.kept = kept
		return nil
	}
	c.path = kept.Path()
	kept.Release()
	return nil
}

// load loads the agent. After an error the one before stays.
func (c *chat) load(ctx context.Context, o load.Options) error {
	o = c.Load(o)
	o.Elicit = c.person.Asked()
	if e := c.editor; e != nil {
		o.Elicit, o.Dir, o.Servers = host.Elicit, e.Dir, mcpServers(e.Servers)
	}
	if c.person != nil {
		o.Rights.Default = policy.Effects
	}
	tree, err := load.Load(ctx, c.p, o)
	if err != nil {
		return err
	}
	logs, err := sinks.Background(c.p, tree, &c.TraceFile)
	if err != nil {
		return errors.Join(err, tree.Close())
	}
	c.unload()
	c.tree, c.logs, c.asks = tree, logs, sinks.Asks(tree)
	return nil
}

// unload ends what the tree has started.
func (c *chat) unload() {
	if c.tree != nil {
		_ = c.tree.Close() // what it started is gone in any case
		if err := c.logs.Close(); err != nil {
			c.p.Warn(err.Error())
		}
	}
}

func (c *chat) close() {
	c.kept.Release()
	c.unload()
}

// A run is a run in progress.
type run struct {
	*runner.Channel
	kept   *keep.Session
	host   *host.Host
	answer func(context.Context, agent.Event) (json.RawMessage, error) // of questions
	cancel context.CancelCauseFunc
}

// start begins a run with a message, or one that finishes what the last one left if the
// message is empty.
func (c *chat) start(ctx context.Context, m agent.Message, o host.Options) (*run, error) {
	r := &run{kept: c.kept}
	if c.path != "" {
		var err error
		if r.kept, err = keep.Reopen(c.p, c.path); err != nil {
			return nil, err
		}
		c.missed(r.kept)
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	approver := ask.NewApprover(c.p, c.person, c.Rights.Yes, r.cancel)
	r.answer = approver.Answer
	r.host = c.Host(c.p, c.tree, r.kept)
	r.host.Traced, r.host.Observe = c.logs.Traced, c.logs.Observe
	watch := o.Observe
	o.Observe = func(e agent.Event) {
		approver.Observe(e)
		if watch != nil {
			watch(e)
		}
	}
	if e := c.editor; e != nil {
		approver.Folder, _ = filepath.EvalSymlinks(e.Dir) // without it no folder is offered
		r.host.Policy, r.host.Panicked = e.Client.Policy, func(text string) { c.p.Warn(c.logs.Hide(text)) }
	}
	start := agent.Start{Compact: c.shorten, Finish: &m}
	start.Args, start.Media = arguments(c.tree.Root, m)
	if r.kept != nil {
		approver.Session = r.kept.ID
	} else {
		if c.memory == nil {
			c.memory = &host.Memory{Max: 1}
		}
		r.host.Sessions, start.Session = c.memory.Open, c.past
	}
	var err error
	if r.Channel, err = r.host.Run(ctx, c.tree.Root.Slug, start, o); err != nil {
		r.cancel(nil)
		return nil, err
	}
	c.shorten, c.running = false, r
	return r, nil
}

// missed says that another program has continued the session since the last message.
func (c *chat) missed(k *keep.Session) {
	if n := k.Past.Session.Turn - c.turns; n > 0 && c.closed == c.path {
		c.say("  Another program has continued this session: `agents session show %s --last %d` shows what it did.", k.ID(), n)
	}
}

// arguments are those of an agent for a message. For an agent with an inputSchema, a
// text that is a JSON object is the arguments.
func arguments(a *agent.Agent, m agent.Message) (json.RawMessage, []agent.Part) {
	text := m.Text()
	var media []agent.Part
	for _, part := range m.Parts {
		if part.Kind != agent.PartText {
			media = append(media, part)
		}
	}
	if a.InputSchema != nil && strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text)) {
		return json.RawMessage(text), media
	}
	args, _ := json.Marshal(map[string]string{"prompt": text}) // a string always encodes
	return args, media
}

// reply answers a question of the run.
func (r *run) reply(ctx context.Context, q agent.Event) {
	answer, err := r.answer(ctx, q)
	if err != nil {
		answer = nil // nobody answers
	}
	r.Reply(q.Question, answer)
}

// finish waits for the end of a run and closes the session.
func (c *chat) finish(r *run) (*agent.Outcome, error) {
	out, err := r.Wait()
	if closed := c.settle(r); err == nil {
		err = closed
	}
	if err == nil && out.Status == agent.StatusPartial {
		err = &agent.EndError{Status: agent.StatusPartial, Text: "the answer is partial: " + out.Reason}
	}
	c.last = c.logs.Redact(err)
	return out, c.last
}

// settle closes the session of a run that has ended, for the next one to continue it.
func (c *chat) settle(r *run) error {
	out, _ := r.Wait()
	r.cancel(nil)
	c.running = nil
	c.total = c.total.Add(out.Total)
	err := r.host.Wait()
	switch {
	case r.kept == nil:
		c.past = r.Session().ID
	case r.kept.ID() == "":
		err = errors.Join(err, c.begin())
	default:
		c.path, c.kept = r.kept.Path(), nil
		c.closed, c.turns = c.path, r.Session().Turn
	}
	return err
}

// begin makes the next message the first of a new session.
func (c *chat) begin() (err error) {
	c.path, c.past = "", ""
	c.kept, err = keep.Open(c.p, &keep.Flags{Dir: c.Keep.Dir, None: c.Keep.None, Began: c.Keep.Began})
	return err
}

// id is the id of the session, "" if there is none yet.
func (c *chat) id() string {
	if c.path == "" {
		return ""
	}
	info, err := session.Inspect(c.path)
	if err != nil {
		return ""
	}
	return info.ID
}

// unfinished reports whether the last run of the session did not end.
func (c *chat) unfinished() bool {
	if c.path == "" {
		return false
	}
	k, err := keep.Reopen(c.p, c.path)
	if err != nil {
		return false
	}
	defer k.Release()
	return k.Unfinished()
}

// say prints lines to the person.
func (c *chat) say(format string, args ...any) {
	fmt.Fprintln(c.out, strings.TrimSuffix(termtext.Clean(fmt.Sprintf(format, args...)), "\n"))
}
