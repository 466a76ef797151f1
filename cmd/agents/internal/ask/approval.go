package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// The scopes: what an answer to a question about a call covers.
const (
	scopeNo      = input.AnswerNo
	scopeOnce    = input.AnswerYes
	scopeSession = input.AnswerSession
	scopeCall    = input.AnswerCall
	scopeFolder  = input.AnswerFolder
)

// An approval is an answer of the person. Its reason is for the model.
type approval struct {
	scope, reason string
}

// approve asks whether a call may run. The error wraps agent.ErrNobody if nobody answers.
func (h *Person) approve(ctx context.Context, q agent.Event, changes string, scopes []string) (approval, error) {
	answer := approval{scope: scopeNo}
	scopes = append([]string{scopeOnce, scopeNo}, scopes...)
	if h.far != nil {
		var err error
		answer.scope, answer.reason, err = h.far(ctx, q, scopes)
		return answer, err
	}
	err := h.use(ctx, func(c *console) error {
		var err error
		answer, err = approve(c, q, changes, scopes)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case errors.Is(err, errNoTerminal):
		return answer, fmt.Errorf("%w: %w", agent.ErrNobody, err)
	case errors.Is(err, io.EOF):
		return approval{scopeNo, "the question was not answered"}, nil
	}
	return answer, err
}

func approve(c *console, q agent.Event, changes string, scopes []string) (approval, error) {
	text, cut := shownArgs(q.Args, maxShownArgs)
	fmt.Fprintf(c, "agent %s wants to call %s:\n%s", visible(strings.Join(q.Path, " > ")), visible(q.Tool), text)
	if q.Text != "" {
		fmt.Fprintf(c, "why:      %s\n", visible(q.Text))
	}
	fmt.Fprintf(c, "changed:  %s\n", changes)
	if q.Sandbox != "" {
		fmt.Fprintf(c, "sandbox:  %s\n", visible(q.Sandbox))
	}
	var keys []string
	for _, word := range append(slices.Clone(scopes), map[bool][]string{true: {"all"}}[cut]...) {
		keys = append(keys, "["+word[:1]+"]"+word[1:])
	}
	prompt := strings.Join(keys, ", ") + " or [h]elp? "
	for {
		line, err := c.Key(prompt)
		if err != nil {
			return approval{scope: scopeNo}, err
		}
		word, rest, _ := strings.Cut(line, " ")
		word = strings.ToLower(strings.TrimRight(word, ",:"))
		switch {
		case word == "":
		case strings.HasPrefix("help", word) || word == "?":
			for _, s := range scopes {
				fmt.Fprintf(c, "  %-7s  %s\n", s, input.AboutAnswer(s, visible(q.Tool)))
			}
			if cut {
				fmt.Fprintf(c, "  %-7s  show all of the arguments\n", "all")
			}
		case cut && strings.HasPrefix("all", word):
			text, _ := shownArgs(q.Args, len(q.Args)*10)
			io.WriteString(c, text)
		default:
			i := slices.IndexFunc(scopes, func(s string) bool { return strings.HasPrefix(s, word) })
			if i < 0 || scopes[i] != scopeNo && rest != "" {
				continue
			}
			answer := approval{scopes[i], strings.TrimSpace(rest)}
			if answer.scope == scopeNo && answer.reason == "" {
				answer.reason, err = c.Line("why not? the model reads it (empty: no reason) ")
			}
			return answer, err
		}
	}
}

// maxShownArgs is how many bytes of arguments a question shows at first.
const maxShownArgs = 4000

// shownArgs formats the arguments of a call: one line each after a bar, and several lines
// for a text with newlines. cut reports that a part is left out.
func shownArgs(args string, limit int) (text string, cut bool) {
	var b strings.Builder
	var list map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &list) != nil {
		list = map[string]json.RawMessage{"arguments": json.RawMessage(args)}
	}
	if len(list) == 0 {
		return "  | (no arguments)\n", false
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		fmt.Fprintf(&b, "  | %s = ", visible(name))
		var s string
		if json.Unmarshal(list[name], &s) != nil || !strings.Contains(strings.TrimSuffix(s, "\n"), "\n") {
			fmt.Fprintln(&b, visible(string(list[name])))
			continue
		}
		b.WriteString("\n")
		for line := range strings.Lines(s) {
			fmt.Fprintf(&b, "  |     %s\n", visible(strings.TrimSuffix(line, "\n")))
		}
	}
	text = b.String()
	if len(text) <= limit {
		return text, false
	}
	head, tail := strings.ToValidUTF8(text[:limit/2], ""), strings.ToValidUTF8(text[len(text)-limit/2:], "")
	return fmt.Sprintf("%s\n  [%d bytes are not shown here; `all` shows them]\n%s", head, len(text)-len(head)-len(tail), tail), true
}

// difference describes in one line how the arguments of a call differ from those of the
// call before.
func difference(before, after string) string {
	var a, b map[string]json.RawMessage
	_ = json.Unmarshal([]byte(before), &a) // anything but an object counts as empty
	_ = json.Unmarshal([]byte(after), &b)
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := a[name], b[name]
		switch {
		case was == nil:
			list = append(list, fmt.Sprintf("%s is new", brief(name)))
		case is == nil:
			list = append(list, fmt.Sprintf("%s is gone", brief(name)))
		case canonical(string(was)) != canonical(string(is)):
			list = append(list, fmt.Sprintf("%s was %s", brief(name), brief(string(was))))
		}
	}
	switch {
	case len(list) == 0:
		return "nothing since the last call of this tool"
	case len(list) > 4:
		list = append(list[:4], fmt.Sprintf("and %d more", len(list)-4))
	}
	return strings.Join(list, "; ")
}

func brief(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:59]) + "…"
	}
	return visible(s)
}

// visible replaces characters that are not printable by their codes: control sequences, and
// characters that are invisible or reorder text. The question must show exactly what runs.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t' || unicode.IsPrint(r) && !termtext.Hidden(r): // some letters and marks are invisible
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
