package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents-fleet/internal/connect"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/termtext"
	"github.com/agents-exe/agents/pkg/view"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

func outputFlag(form *string) cli.Flag {
	return &cli.StringFlag{Name: "output", Value: "text", Usage: "`FORM` of the result: text (the answer), json (one object) or jsonl (every event as a line)", Destination: form, Validator: func(s string) error {
		if !slices.Contains([]string{"text", "json", "jsonl"}, s) {
			return errors.New("want text, json or jsonl")
		}
		return nil
	}}
}

func channelFlag(speak *bool) cli.Flag {
	return &cli.BoolFlag{Name: "channel", Usage: "for programs: use the channel on standard input and output (see agents help nesting)", Destination: speak}
}

func (f *fleet) runCommand() *cli.Command {
	s, form := &submission{}, ""
	return &cli.Command{
		Name: "run", Usage: "start a run and show it until it ends; Ctrl-C cancels it",
		Flags: append(s.flags(f), outputFlag(&form), channelFlag(&s.channel)),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			defer f.close()
			if s.channel {
				return f.serve(ctx, s)
			}
			if err := s.read(f.in); err != nil {
				return err
			}
			r, err := f.submit(ctx, s)
			if err != nil {
				return err
			}
			life, leave := context.WithCancel(context.WithoutCancel(ctx))
			defer leave()
			defer context.AfterFunc(ctx, func() {
				time.AfterFunc(endTime, leave)
				f.problem(r.Cancel(life, ""))
			})()
			return f.follow(life, r, form)
		},
	}
}

// endTime is how long a run that was cancelled may take to end.
const endTime = 30 * time.Second

func (f *fleet) attachCommand() *cli.Command {
	form, speak, from := "", false, int64(0)
	return &cli.Command{
		Name: "attach", Usage: "show a run from its beginning to its end; after Ctrl-C the run continues", ArgsUsage: "ID",
		Flags: f.flags(outputFlag(&form), channelFlag(&speak), &cli.Int64Flag{Name: "from", Usage: "with --channel, begin after event `N`", Destination: &from}),
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := f.find(ctx, c)
			defer f.close()
			if err != nil {
				return err
			}
			if speak {
				end, err := r.Serve(ctx, attach.Lines(f.in), f.out, from, f.problem)
				return silent(end, err)
			}
			return f.follow(ctx, r, form)
		},
	}
}

// find returns the run that the only argument of a command names.
func (f *fleet) find(ctx context.Context, c *cli.Command) (*attach.Run, error) {
	if c.Args().Len() != 1 {
		return nil, usage("%s: want the id of one run, as `agents-fleet list` shows it", c.FullName())
	}
	err := f.open(ctx, connect.Options{})
	return &attach.Run{Client: f.client, Store: f.store, ID: c.Args().First()}, err
}

func (f *fleet) cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "cancel a run and its sub-agents", ArgsUsage: "ID", Flags: f.flags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			r, err := f.find(ctx, c)
			defer f.close()
			if err == nil {
				err = r.Cancel(ctx, "")
			}
			return err
		},
	}
}

// problem shows an error as a warning.
func (f *fleet) problem(err error) {
	if err != nil && !errors.Is(err, attach.ErrOver) {
		f.note("warning: " + termtext.Clean(err.Error()))
	}
}

// serve starts the run that a start message on standard input describes, and speaks the
// channel until it ends.
func (f *fleet) serve(ctx context.Context, s *submission) error {
	lines := attach.Lines(f.in)
	err := io.ErrUnexpectedEOF
	if lines.Scan() {
		s.start, err = channel.DecodeStart(lines.Bytes())
	}
	var r *attach.Run
	if err == nil {
		r, err = f.submit(ctx, s)
	}
	if err != nil {
		line, _ := channel.EncodeEvent(attach.End(1, err)) // it is short
		_, writeErr := f.out.Write(line)
		shown := explain(errors.Join(err, writeErr))
		shown.quiet = true
		return shown
	}
	end, err := r.Serve(ctx, lines, f.out, 0, f.problem)
	return silent(end, err)
}

// silent returns the exit code of a run whose end was already shown.
func silent(end agent.Event, err error) error {
	if code := codeOf(end.Status); err != nil || code != 0 {
		return &failure{error: errors.Join(err, errors.New(end.Error)), code: code, quiet: true}
	}
	return nil
}

// follow shows a run until it ends.
func (f *fleet) follow(ctx context.Context, r *attach.Run, form string) error {
	text := &view.Text{W: f.err, Live: isTerminal(f.err)}
	lines := &observe.JSONLines{W: f.out, Pieces: true}
	ask := &asker{f: f, r: r, hold: text.Hold}
	if in, ok := f.in.(*os.File); ok && isTerminal(f.err) && term.IsTerminal(int(in.Fd())) {
		ask.in = bufio.NewReader(in)
	}
	turns := 0
	for e, err := range r.Events(ctx, 0) {
		if err != nil {
			text.Close()
			if ctx.Err() != nil {
				return &failure{error: errors.New("detached from the run"), code: 130, hint: fmt.Sprintf("the run has not ended; `agents-fleet attach %s` shows it, `agents-fleet cancel %s` cancels it", r.ID, r.ID)}
			}
			return err
		}
		if e.Kind == agent.EventAnswer && e.Depth == 0 {
			turns++
		}
		if form == "jsonl" {
			lines.Observe(e)
			if err := lines.Err(); err != nil {
				return err
			}
		}
		text.Observe(e)
		if e.Kind == agent.EventQuestion && ask.in != nil && !r.Answered(ctx, e.Question) {
			go ask.ask(ctx, e)
		}
		if e.Kind == agent.EventEnd && e.Depth == 0 {
			text.Close()
			return f.result(e, form, turns)
		}
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// result writes the result of a run to stdout. The error decides the exit code.
func (f *fleet) result(e agent.Event, form string, turns int) (err error) {
	ok := e.Status == agent.StatusOK || e.Status == agent.StatusPartial
	switch {
	case form == "json":
		total := agent.TotalUsage{}
		if e.Total != nil {
			total = *e.Total
		}
		if total.Tools == nil {
			total.Tools = map[string]agent.ToolUsage{}
		}
		err = json.NewEncoder(f.out).Encode(map[string]any{
			"answer": e.Text, "outcome": e.Status, "error": e.Error, "agent": e.Agent, "session": e.Session, "turns": turns,
			"usage": total.Usage, "agents": total.Agents, "tools": total.Tools, "duration_ms": e.Millis,
		})
	case form == "text" && ok:
		answer := e.Text
		if isTerminal(f.out) {
			answer = termtext.Clean(answer)
		}
		_, err = io.WriteString(f.out, strings.TrimSuffix(answer, "\n")+"\n")
	}
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if e.Status != agent.StatusOK {
		reason := e.Error
		if e.Status == agent.StatusPartial {
			reason = "the answer is partial: " + e.Error
		}
		return &failure{error: fmt.Errorf("run agent %s: %s", e.Agent, reason), code: codeOf(e.Status)}
	}
	return nil
}

// An asker asks the person at the terminal.
type asker struct {
	f    *fleet
	r    *attach.Run
	in   *bufio.Reader // nil without a terminal
	hold func() (release func())
	mu   sync.Mutex // held while a question is shown
}

// ask shows a question and sends the reply.
func (a *asker) ask(ctx context.Context, q agent.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.hold()()
	who := termtext.Clean(strings.Join(q.Path, " > "))
	switch q.What {
	case "approve":
		fmt.Fprintf(a.f.err, "agent %s wants to call %s\n  %s\n%s\nallow it? yes or no: ", who, termtext.Clean(q.Tool), termtext.Clean(q.Args), termtext.Clean(q.Text))
	case "elicit":
		fmt.Fprintf(a.f.err, "%s of agent %s asks: %s\nJSON that satisfies %s, or an empty line: ", termtext.Clean(q.Tool), who, termtext.Clean(q.Text), termtext.Clean(string(q.Schema)))
	default:
		fmt.Fprintf(a.f.err, "agent %s asks: %s %s\n> ", who, termtext.Clean(q.Text), termtext.Clean(strings.Join(q.Choices, ", ")))
	}
	line, err := a.in.ReadString('\n')
	if err != nil {
		line = ""
	}
	a.f.problem(a.r.Reply(ctx, q.Question, reply(q.What, strings.TrimSpace(line))))
}

// reply is the answer for a line that a person typed; nil if there is none.
func reply(what, line string) (answer json.RawMessage) {
	switch {
	case what == "approve":
		decision, reason := agent.Deny, "a person denied it"
		if line == "y" || line == "yes" {
			decision, reason = agent.Allow, "a person allowed it"
		}
		answer, _ = json.Marshal(map[string]any{"decision": decision, "reason": reason}) // strings always encode
	case what == "elicit" && json.Valid([]byte(line)):
		answer = json.RawMessage(`{"action":"accept","content":` + line + `}`)
	case what == "elicit":
		answer = json.RawMessage(`{"action":"decline"}`)
	case line != "":
		answer, _ = json.Marshal(line)
	}
	return answer
}
