// Package ask asks a person at a terminal: during setup, and while an agent runs, about
// calls and for MCP servers.
package ask

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// An Asker asks a person on a terminal. Questions go to stderr.
type Asker struct {
	p  *program.Env
	in *bufio.Reader
}

// Terminal returns an Asker, nil if there is no terminal or yes is set.
func Terminal(p *program.Env, yes bool) *Asker {
	if yes || !p.InTerm || !p.ErrTerm {
		return nil
	}
	return &Asker{p, bufio.NewReader(p.In)}
}

// Agree returns the function Env.Agree; nil if there is no terminal.
func Agree(p *program.Env) func(ctx context.Context, text string) (bool, error) {
	a := Terminal(p, false)
	if a == nil {
		return nil
	}
	return func(ctx context.Context, text string) (bool, error) {
		io.WriteString(p.Err, termtext.Clean(text))
		return a.Agrees(ctx, "trust it?", "no")
	}
}

// Agrees asks a question whose answer is yes or no.
func (a *Asker) Agrees(ctx context.Context, question, def string) (bool, error) {
	answer, err := a.Line(ctx, question+" yes or no", def)
	answer = strings.ToLower(answer)
	return answer == "yes" || answer == "y", err
}

// Line asks for one line; an empty answer is the default, and without one the
// question is asked again.
func (a *Asker) Line(ctx context.Context, question, def string) (string, error) {
	if def != "" {
		question += " [" + def + "]"
	}
	for {
		fmt.Fprintf(a.p.Err, "%s: ", termtext.Clean(question))
		text, err := program.Await(ctx, func() (string, error) { return a.in.ReadString('\n') })
		if err != nil {
			return "", a.ended(ctx, err)
		}
		if text = cmp.Or(strings.TrimSpace(text), def); text != "" {
			return text, nil
		}
	}
}

// Secret asks for a line that is not shown, until it is not empty.
func (a *Asker) Secret(ctx context.Context, question string) (string, error) {
	f, ok := a.p.In.(*os.File)
	if !ok {
		return "", errors.New("standard input is not a terminal")
	}
	for {
		show, err := program.HideTyping(int(f.Fd()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(a.p.Err, "%s (it is not shown): ", termtext.Clean(question))
		text, err := program.Await(ctx, func() (string, error) { return a.in.ReadString('\n') })
		show()
		fmt.Fprintln(a.p.Err)
		if err != nil {
			return "", a.ended(ctx, err)
		}
		if text = strings.TrimSpace(text); text != "" {
			return text, nil
		}
		fmt.Fprintln(a.p.Err, "it is empty; Ctrl-C ends this without a change")
	}
}

// A Group is choices under a title, which may be "".
type Group struct {
	Title  string
	Labels []string
}

// Choice asks for one of several things and returns its position, counted over all groups.
func (a *Asker) Choice(ctx context.Context, question string, groups ...Group) (int, error) {
	fmt.Fprintln(a.p.Err, question)
	n, width := 0, 1
	for _, g := range groups {
		if n += len(g.Labels); n > 9 {
			width = 2
		}
	}
	n = 0
	for _, g := range groups {
		if g.Title != "" {
			fmt.Fprintf(a.p.Err, " %s\n", g.Title)
		}
		for _, label := range g.Labels {
			n++
			fmt.Fprintf(a.p.Err, "  %*d  %s\n", width, n, termtext.Clean(label))
		}
	}
	for {
		text, err := a.Line(ctx, "number", "1")
		if err != nil {
			return 0, err
		}
		if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= n {
			return i - 1, nil
		}
		fmt.Fprintf(a.p.Err, "want a number from 1 to %d\n", n)
	}
}

func (a *Asker) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fmt.Fprintln(a.p.Err)
		return fmt.Errorf("nothing was written: %w", err)
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.p.Err)
		return failure.Usage("--yes asks nothing", "nothing was written: the input ended before an answer")
	}
	return failure.NothingRan(fmt.Errorf("read the answer: %w", err), "")
}

func (h *Person) answer(ctx context.Context, q agent.Event) (json.RawMessage, error) {
	a, err := h.elicit(ctx, mcpclient.Elicitation{Server: q.Asker(), Message: strings.TrimSuffix(q.Text, "\n"+q.URL), Schema: q.Form(), URL: q.URL})
	if err != nil {
		return nil, err
	}
	return q.Filled(string(a.Action), a.Content)
}
