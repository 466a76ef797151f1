package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

const (
	maxText   = 1 << 20   // bytes of a file that a message includes as text
	maxOutput = 100 << 10 // bytes of the output of a command that a message includes
)

// message makes a message of what was typed: with the files that it names, and with the
// outputs of commands before it.
func (c *chat) message(ctx context.Context, text string) (agent.Message, error) {
	m := agent.UserText(text)
	for _, name := range mentions(text) {
		part, err := file(ctx, name)
		if err != nil {
			return m, err
		}
		m.Parts = append(m.Parts, part)
	}
	texts := ""
	parts := m.Parts[:1]
	for _, part := range append(c.next, m.Parts[1:]...) {
		if part.Kind == agent.PartText {
			texts += "\n\n" + part.Text
			continue
		}
		parts = append(parts, part)
	}
	parts[0].Text += texts
	m.Parts, c.next = parts, nil
	return m, nil
}

// mentions are the files that a text names as @NAME or @"NAME", if they exist.
func mentions(text string) []string {
	var names []string
	seen := map[string]bool{}
	for rest := text; ; {
		i := strings.IndexByte(rest, '@')
		if i < 0 {
			return names
		}
		begins := i == 0 || strings.ContainsRune(" \t\n(", rune(rest[i-1]))
		rest = rest[i+1:]
		if !begins {
			continue
		}
		name := ""
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			name, _, _ = strings.Cut(quoted, `"`)
		} else if name = rest; strings.ContainsAny(rest, " \t\n") {
			name = rest[:strings.IndexAny(rest, " \t\n")]
		}
		for _, candidate := range []string{name, strings.TrimRight(name, ".,:;!?)")} {
			info, err := os.Stat(program.ExpandHome(candidate))
			if err == nil && info.Mode().IsRegular() && !seen[candidate] {
				names, seen[candidate] = append(names, candidate), true
				break
			}
		}
	}
}

// file is a file as a part of a message: text with its name, or an attachment.
func file(ctx context.Context, name string) (agent.Part, error) {
	data, err := program.ReadFile(ctx, program.ExpandHome(name), maxText)
	if err != nil {
		return agent.Part{}, fmt.Errorf("read %s: %w", name, program.WithoutPath(err))
	}
	if isText(data) {
		if len(data) > maxText {
			return agent.Part{}, fmt.Errorf("%s is longer than %d bytes; let the agent read the part that it needs", name, maxText)
		}
		return agent.Text(fmt.Sprintf("<file path=%q>\n%s\n</file>", name, strings.TrimSuffix(string(data), "\n"))), nil
	}
	parts, err := prompt.Attachments(ctx, []string{program.ExpandHome(name)})
	if err != nil {
		return agent.Part{}, err
	}
	return parts[0], nil
}

// isText reports whether data is text. If it is longer than maxText, it may be cut within
// a character.
func isText(data []byte) bool {
	for cut := 0; cut < utf8.UTFMax; cut++ {
		if utf8.Valid(data[:max(len(data)-cut, 0)]) {
			return bytes.IndexByte(data, 0) < 0
		}
		if len(data) <= maxText {
			break
		}
	}
	return false
}

// shell runs a command, shows its output and keeps it for the next message.
func (c *chat) shell(ctx context.Context, command string) error {
	path, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	kept := &beginning{out: c.out, limit: maxOutput}
	exit, err := process.Run(ctx, &process.Command{Path: path, Args: []string{"-c", command}, Env: os.Environ(), Stdout: kept, Stderr: kept})
	if err != nil && ctx.Err() == nil {
		return err
	}
	output, note := kept.text(), ""
	switch {
	case ctx.Err() != nil:
		note = "\n[stopped]"
	case exit.Code != 0 || exit.Signal != 0:
		note = "\n[" + exit.String() + "]"
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		fmt.Fprintln(c.out)
	}
	c.next = append(c.next, agent.Text(fmt.Sprintf("<command line=%q>\n%s%s\n</command>", command, strings.TrimSuffix(output, "\n"), note)))
	if note != "" {
		c.say("%s", strings.TrimSpace(note))
	}
	return errors.Join(ctx.Err())
}

// A beginning shows what is written and keeps its first bytes.
type beginning struct {
	out   io.Writer
	limit int

	mu    sync.Mutex
	clean termtext.Cleaner
	kept  []byte
	size  int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size += len(p)
	b.kept = append(b.kept, p[:min(len(p), b.limit-len(b.kept))]...)
	_, _ = io.WriteString(b.out, b.clean.Clean(string(p))) // the person sees if it is gone
	return len(p), nil
}

func (b *beginning) text() string {
	text := strings.ToValidUTF8(string(b.kept), "\uFFFD")
	if b.size > len(b.kept) {
		text += fmt.Sprintf("\n[%d more bytes were left out]", b.size-len(b.kept))
	}
	return text
}
