package input

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Shell runs a command of the shell until it or ctx ends, and writes what it prints,
// without control sequences, to w. It returns what a message includes of it, and how it
// ended if not with success.
func Shell(ctx context.Context, command string, w io.Writer) (text, note string, err error) {
	path, err := exec.LookPath("sh")
	if err != nil {
		return "", "", err
	}
	kept := &beginning{out: w}
	exit, err := process.Run(ctx, &process.Command{Path: path, Args: []string{"-c", command}, Env: os.Environ(), Stdout: kept, Stderr: kept})
	switch {
	case ctx.Err() != nil:
		note = "[stopped]"
	case err != nil:
		return "", "", err
	case exit.Code != 0 || exit.Signal != 0:
		note = "[" + exit.String() + "]"
	}
	output := strings.TrimSuffix(kept.text(), "\n")
	if note != "" {
		output += "\n" + note
	}
	return fmt.Sprintf("<command line=%q>\n%s\n</command>", command, output), note, nil
}

// A beginning shows what is written and keeps its first bytes.
type beginning struct {
	out io.Writer

	mu    sync.Mutex
	clean termtext.Cleaner
	kept  []byte
	size  int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size += len(p)
	b.kept = append(b.kept, p[:min(len(p), maxOutput-len(b.kept))]...)
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
