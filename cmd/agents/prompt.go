package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
)

// maxPrompt limits the prompt and each of its items, in bytes.
const maxPrompt = 16 << 20

// A promptItem is one piece of the prompt script.
type promptItem struct {
	kind string // the flag's name
	text string
}

// A promptScript collects the items in the order of the command line, which
// several flags share.
type promptScript []promptItem

// promptFlag is a flag that adds items of one kind. Set is called in the order
// of the arguments.
type promptFlag struct {
	kind   string
	script *promptScript
}

func (f *promptFlag) Set(s string) error {
	*f.script = append(*f.script, promptItem{f.kind, s})
	return nil
}

func (f *promptFlag) String() string { return "" }
func (f *promptFlag) Get() any       { return *f.script }

// flags are the flags of the prompt script.
func (s *promptScript) flags() []cli.Flag {
	flag := func(name, alias, usage string) cli.Flag {
		f := &cli.GenericFlag{Name: name, Category: "prompt (in the order given)", Usage: usage, Value: &promptFlag{name, s}}
		if alias != "" {
			f.Aliases = []string{alias}
		}
		return f
	}
	return []cli.Flag{
		flag("prompt", "p", "add `TEXT`; - is standard input"),
		flag("file", "f", "add the contents of `FILE`; - is standard input"),
		flag("shell", "", "add what sh -c `CMD` prints; a failing command ends everything"),
		flag("sep4", "s", "add `STR` four times"),
		flag("sep40", "S", "add `STR` forty times"),
	}
}

// render puts the prompt together. Without items it is all of stdin.
func (s promptScript) render(ctx context.Context, in io.Reader) (string, error) {
	var b strings.Builder
	stdin := &once{in: in}
	if len(s) == 0 {
		text, err := stdin.read()
		if err != nil {
			return "", nothingRan(fmt.Errorf("read the prompt from standard input: %w", err), "")
		}
		b.WriteString(text)
	}
	for _, item := range s {
		text, err := item.render(ctx, stdin)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		b.WriteByte('\n')
		if b.Len() > maxPrompt {
			return "", usage("", "the prompt is longer than %d bytes", maxPrompt)
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		return "", usage("give one with --prompt, --file or --shell, or on standard input", "the prompt is empty")
	}
	return b.String(), nil
}

func (i promptItem) render(ctx context.Context, stdin *once) (string, error) {
	switch i.kind {
	case "sep4":
		return strings.Repeat(i.text, 4), nil
	case "sep40":
		return strings.Repeat(i.text, 40), nil
	case "shell":
		return shell(ctx, i.text)
	}
	if i.text == "-" {
		text, err := stdin.read()
		if err != nil {
			return "", nothingRan(fmt.Errorf("--%s -: %w", i.kind, err), "")
		}
		return text, nil
	}
	if i.kind == "prompt" {
		return i.text, nil
	}
	file, err := os.Open(i.text)
	if err != nil {
		return "", nothingRan(fmt.Errorf("--file: %w", err), "")
	}
	defer file.Close()
	text, err := readAll(file)
	if err != nil {
		return "", nothingRan(fmt.Errorf("--file %s: %w", i.text, err), "")
	}
	return text, nil
}

// shell is what a command prints. Its stderr goes to ours, and it ends with ctx.
func shell(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	cmd.Stderr = os.Stderr
	out := &limited{}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case out.over:
		return "", usage("", "--shell %q printed more than %d bytes", command, maxPrompt)
	case err != nil:
		return "", nothingRan(fmt.Errorf("--shell %q: %w", command, err), "the model was not called; correct the command")
	}
	return out.String(), nil
}

// limited keeps at most maxPrompt bytes and knows whether there were more.
type limited struct {
	bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxPrompt {
		l.over = true
		return 0, errors.New("too much output")
	}
	return l.Buffer.Write(p)
}

// once is standard input, which can be read one time.
type once struct {
	in   io.Reader
	done bool
}

func (o *once) read() (string, error) {
	if o.done {
		return "", errors.New("standard input was read already")
	}
	o.done = true
	return readAll(o.in)
}

func readAll(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxPrompt {
		return "", fmt.Errorf("it is longer than %d bytes", maxPrompt)
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return "", fmt.Errorf("it is no text: there is a NUL byte at offset %d", i)
	}
	if !utf8.Valid(data) {
		return strings.ToValidUTF8(string(data), "\uFFFD"), nil
	}
	return string(data), nil
}
