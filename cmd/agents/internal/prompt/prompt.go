// Package prompt assembles the prompt of a run from the flags of the command line,
// files, commands, standard input, earlier sessions and prompts of MCP servers.
package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/urfave/cli/v3"
)

var ErrEmpty = errors.New("the prompt is empty")

// maxPrompt limits the prompt and each of its items, in bytes.
const maxPrompt = 16 << 20

// A promptItem is one piece of the prompt script.
type promptItem struct {
	kind    string // the flag's name
	text    string
	context func() (string, error)
}

// A Script collects the items in the order of the command line, which
// several flags share.
type Script []promptItem

// Flags are the flags of the prompt script. dir is the value of
// --session-dir, nil if there is no such flag.
func (s *Script) Flags(p *program.Env, dir *string) []cli.Flag {
	flag := func(name, alias, usage string) cli.Flag {
		add := func(text string) error {
			*s = append(*s, promptItem{kind: name, text: text})
			return nil
		}
		f := &cli.GenericFlag{Name: name, Category: "prompt (in the order given)", Usage: usage, Value: &program.Repeatable{Add: add}}
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
		s.contextFlag(p, dir),
	}
}

// Words makes the words of a command line the beginning of the prompt. Standard
// input that is piped becomes its end, unless an item reads it.
func (s *Script) Words(c *cli.Command) error {
	words := c.Args().Slice()
	switch {
	case len(words) == 0:
		return nil
	case len(words) == 1 && jsondoc.HasName(words[0]) && !strings.Contains(words[0], " "):
		return failure.Usage("an agent file is given with --agent-file", "%s: unexpected argument %q", c.FullName(), words[0])
	case slices.ContainsFunc(*s, func(i promptItem) bool { return i.kind == "prompt" }):
		return failure.Usage("a prompt of several words is one argument: quote it", "%s: unexpected argument %q", c.FullName(), words[0])
	}
	*s = slices.Insert(*s, 0, promptItem{kind: "words", text: strings.Join(words, " ")})
	return nil
}

// reads reports whether an item is standard input.
func (s Script) reads() bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(i promptItem) bool { return (i.kind == "prompt" || i.kind == "file") && i.text == "-" })
}

// Unread reports whether standard input has something that the script leaves unread.
func (s Script) Unread(p *program.Env) bool {
	return !s.reads() && s[0].kind != "words" && !p.InTerm && p.InputReady()
}

// Render puts the prompt together. Without items it is all of stdin.
func (s Script) Render(ctx context.Context, p *program.Env) (string, error) {
	var b strings.Builder
	stdin := &once{p: p, in: p.In, notice: time.Second}
	if len(s) == 0 {
		text, err := stdin.read(ctx)
		if err != nil {
			return "", failure.NotRead(ctx, "read the prompt from standard input", err)
		}
		b.WriteString(text)
	}
	for _, item := range s {
		text, err := item.render(ctx, stdin, p.Err)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		b.WriteByte('\n')
		if b.Len() > maxPrompt {
			return "", failure.Usage("", "the prompt is longer than %d bytes", maxPrompt)
		}
	}
	if !s.reads() && s[0].kind == "words" && !p.InTerm {
		text, err := stdin.piped(ctx)
		if err == errSilent {
			return "", failure.NothingRan(fmt.Errorf("read standard input: it is open, and nothing came for %s", maxSilence),
				"with `</dev/null`, or --prompt in place of the words, it is not read; --file - waits without a limit")
		}
		if err != nil {
			return "", failure.NotRead(ctx, "read standard input", err)
		}
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, "\n<stdin>\n%s\n</stdin>\n", strings.TrimSuffix(text, "\n"))
		}
	}
	if strings.TrimSpace(b.String()) == "" {
		return "", failure.Usage("give one as an argument, with --prompt, --file or --shell, or on standard input", "%w", ErrEmpty)
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD"), nil
}

func (i promptItem) render(ctx context.Context, stdin *once, errs io.Writer) (string, error) {
	switch i.kind {
	case "sep4":
		return strings.Repeat(i.text, 4), nil
	case "sep40":
		return strings.Repeat(i.text, 40), nil
	case contextFlag:
		return i.context()
	case "shell":
		return shell(ctx, errs, i.text)
	}
	if i.text == "-" && i.kind != "words" {
		text, err := stdin.read(ctx)
		if err != nil {
			return "", failure.NotRead(ctx, fmt.Sprintf("--%s -", i.kind), err)
		}
		return text, nil
	}
	if i.kind == "prompt" || i.kind == "words" {
		return i.text, nil
	}
	data, err := program.ReadFile(ctx, i.text, maxPrompt)
	if err != nil {
		return "", failure.NotRead(ctx, "--file", err)
	}
	text, err := promptText(data)
	if err != nil {
		return "", failure.NothingRan(fmt.Errorf("--file %s: %w", i.text, err), "")
	}
	return text, nil
}

// shell is what a command prints. Its stderr goes to errs. It ends with ctx,
// together with all processes that it started.
func shell(ctx context.Context, errs io.Writer, command string) (string, error) {
	path, err := exec.LookPath("sh")
	if err != nil {
		return "", failure.NothingRan(fmt.Errorf("--shell %q: %w", command, err), "")
	}
	running, end := context.WithCancel(ctx)
	defer end()
	out := &limited{end: end}
	exit, err := process.Run(running, &process.Command{
		Path: path, Args: []string{"-c", command}, Env: os.Environ(), Stdout: out, Stderr: errs,
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case out.over:
		return "", failure.Usage("", "--shell %q printed more than %d bytes", command, maxPrompt)
	case err == nil && (exit.Code != 0 || exit.Signal != 0):
		err = errors.New(exit.String())
	}
	if err != nil {
		return "", failure.NothingRan(fmt.Errorf("--shell %q: %w", command, err), "the model was not called; correct the command")
	}
	printed, err := promptText(out.Bytes())
	if err != nil {
		return "", failure.NothingRan(fmt.Errorf("--shell %q: its output: %w", command, err), "")
	}
	return printed, nil
}

// limited keeps at most maxPrompt bytes and records whether there were more.
type limited struct {
	bytes.Buffer
	over bool
	end  func() // called once there is more
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxPrompt {
		l.over = true
		l.end()
		return 0, errors.New("too much output")
	}
	return l.Buffer.Write(p)
}

// once is standard input, which can be read once.
type once struct {
	p      *program.Env
	in     io.Reader
	notice time.Duration // until announce prints a note, unless at a terminal
	done   bool
}

func (o *once) read(ctx context.Context) (string, error) {
	if o.done {
		return "", errors.New("standard input was read already")
	}
	o.done = true
	defer o.announce().Stop()
	data, err := program.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(o.in, maxPrompt+1)) })
	if err != nil {
		return "", err
	}
	return promptText(data)
}

// announce prints that standard input is read: at a terminal at once, otherwise after
// o.notice.
func (o *once) announce() *time.Timer {
	if o.p.InTerm {
		o.p.Note("type the prompt; Ctrl-D on a new line ends it")
		return time.NewTimer(0)
	}
	return time.AfterFunc(o.notice, func() { o.p.Note("reading standard input") })
}

// maxSilence limits how long a prompt of words waits for the first byte of standard input,
// which a service manager, for example, may have left open.
const maxSilence = time.Minute

var errSilent = errors.New("nothing came")

// piped reads the input that is piped to a prompt of words. The standard input of a tool
// may stay open, so a run below a tool only reads what has arrived. If no person can look why
// nothing happens, the note comes almost at once.
func (o *once) piped(ctx context.Context) (string, error) {
	if o.p.Getenv(process.MarkVariable) == "" {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
		defer silence.Stop()
		o.in = heard{o.in, silence}
		if o.p.Terminal() == "" {
			o.notice = time.Second / 10
		}
		return o.read(ctx)
	}
	var data []byte
	chunk := make([]byte, 1<<16)
	for len(data) <= maxPrompt && o.p.InputReady() {
		n, err := o.p.In.Read(chunk)
		data = append(data, chunk[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	return promptText(data)
}

type heard struct {
	io.Reader
	*time.Timer
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.Stop()
	}
	return n, err
}

// promptText is data that a person meant as text, read up to maxPrompt bytes and
// one more. What is not UTF-8 is replaced.
func promptText(data []byte) (string, error) {
	if len(data) > maxPrompt {
		return "", fmt.Errorf("it is longer than %d bytes", maxPrompt)
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return "", fmt.Errorf("it is not text: there is a NUL byte at offset %d", i)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// maxMedia limits the attachments of a prompt together, in bytes.
const maxMedia = 50_000_000

// Attachments reads the files of --media, each as [MIME;]PATH.
func Attachments(ctx context.Context, args []string) ([]agent.Part, error) {
	var parts []agent.Part
	room := int64(maxMedia)
	for _, arg := range args {
		part, err := attachment(ctx, arg, room)
		if err != nil {
			return nil, failure.NotRead(ctx, "--media "+arg, err)
		}
		room -= int64(len(part.Data))
		parts = append(parts, part)
	}
	return parts, nil
}

func attachment(ctx context.Context, arg string, room int64) (agent.Part, error) {
	mime, path, named := strings.Cut(arg, ";")
	if !named || !strings.Contains(mime, "/") || program.Taken(arg) {
		mime, path = "", arg
	}
	data, err := program.ReadFile(ctx, path, room)
	if err != nil {
		return agent.Part{}, program.WithoutPath(err)
	}
	if int64(len(data)) > room {
		return agent.Part{}, fmt.Errorf("the attachments are larger than %d bytes together", maxMedia)
	}
	return input.Attachment(path, mime, data)
}

// ReadAnswerSchema reads the file of --output-schema; without a file it is nil.
func ReadAnswerSchema(ctx context.Context, path string) (*schema.Answer, error) {
	if path == "" {
		return nil, nil
	}
	data, err := program.ReadFile(ctx, path, schema.MaxAnswer)
	if err != nil {
		return nil, failure.NotRead(ctx, "--output-schema", err)
	}
	answer, err := schema.CompileAnswer(path, data)
	if err != nil {
		return nil, failure.Usage("", "--output-schema: %s", err)
	}
	return answer, nil
}
