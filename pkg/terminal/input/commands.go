// Package input reads what a person types in a conversation with an agent: commands,
// files to include, and commands of the shell. The chat in plain lines, the terminal
// interface and editors share it, so that one table has all commands.
package input

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Command is one that begins with a slash.
type Command struct {
	Name, Args, About string
	Idle              bool // not during a run
	Lone              bool // Args may be left out
	Editor            bool // editors have it too
	Screen            bool // it needs the terminal interface
}

// Commands returns the commands in the order of the help.
func Commands() []Command {
	return []Command{
		{Name: "help", About: "this list"},
		{Name: "new", About: "begin a new conversation"},
		{Name: "clear", About: "clear the screen, and begin a new conversation"},
		{Name: "agent", Args: "SLUG", About: "begin a new conversation with another agent"},
		{Name: "agents", About: "the agents of this tree, and others that can be chosen", Editor: true},
		{Name: "model", Args: "NAME", About: "use another model for what follows, or SLUG=NAME in one agent", Idle: true, Lone: true, Editor: true},
		{Name: "tools", About: "the tools of the agent", Editor: true},
		{Name: "cost", About: "what the conversation has consumed", Editor: true},
		{Name: "budget", Args: "AMOUNT=NUMBER", About: "limit each run that follows, as usd=1,seconds=600", Lone: true, Editor: true},
		{Name: "undo", About: "take back the last message and what followed, in a copy of the session, and the files if you want", Idle: true},
		{Name: "fork", About: "continue in a copy of the session", Idle: true},
		{Name: "save", Args: "FILE", About: "write the conversation as Markdown"},
		{Name: "compact", About: "shorten the conversation for the model", Editor: true},
		{Name: "attach", Args: "SESSION", About: "show a run or a session; without an argument, one of a list", Lone: true, Screen: true},
		{Name: "edit", About: "write the message in $VISUAL or $EDITOR", Screen: true},
		{Name: "quit", About: "leave"},
	}
}

// Others are what can be typed beside the commands, for the help: pairs of what it is and
// what it means.
var Others = [][2]string{
	{"@FILE", "include a file; Tab completes its name"},
	{"!COMMAND", "run a command of the shell; its output goes along with the next message"},
	{`\ Enter`, "continue on a new line"},
}

// Usage is the command with its arguments.
func (c *Command) Usage() string { return strings.TrimSpace("/" + c.Name + " " + c.Args) }

// Slash splits a line with a command. A path is not a command; the words that leave other
// programs, such as exit, are.
func Slash(text string) (name, args string, ok bool) {
	switch strings.TrimSpace(text) {
	case "q", "quit", "exit":
		return "quit", "", true
	}
	if len(text) < 2 || text[0] != '/' || text[1] < 'a' || text[1] > 'z' {
		return "", "", false
	}
	name, args, _ = strings.Cut(strings.TrimSpace(text[1:]), " ")
	return name, strings.TrimSpace(args), !strings.ContainsAny(name, "/.\n")
}

// Find returns the command with a name if args are possible.
func Find(name, args string) (*Command, error) {
	var names []string
	for _, c := range Commands() {
		switch {
		case c.Name != name:
			names = append(names, "/"+c.Name)
		case args == "" && c.Args != "" && !c.Lone:
			return nil, fmt.Errorf("usage: %s", c.Usage())
		case args != "" && c.Args == "":
			return nil, fmt.Errorf("/%s takes no argument", name)
		default:
			return &c, nil
		}
	}
	return nil, fmt.Errorf("there is no command /%s%s", name, cmp.Or(closest.Hint("/"+name, names), "; /help lists them"))
}

// The answers to the question whether a call may run.
const (
	AnswerYes     = "yes"
	AnswerNo      = "no"
	AnswerSession = "session"
	AnswerCall    = "call"
	AnswerFolder  = "folder"
)

// Answers returns the answers that a question permits, in the order in which they are
// offered. folder is whether answers are kept for later runs in the folder.
func Answers(q *agent.Event, folder bool) []string {
	list := []string{AnswerYes, AnswerNo}
	if q.Reviewer == "human" || q.Approval == "always" {
		return list
	}
	if list = append(list, AnswerSession, AnswerCall); folder {
		list = append(list, AnswerFolder)
	}
	return list
}

// AboutAnswer says what an answer means for calls of a tool.
func AboutAnswer(answer, tool string) string {
	switch answer {
	case AnswerYes:
		return "this call, and the same call again in this run"
	case AnswerNo:
		return "not this call; text after it is a reason for the model"
	case AnswerSession:
		return "every call of " + tool + " in this session"
	case AnswerCall:
		return "every call of " + tool + " with these arguments in this session"
	}
	return "every call of " + tool + " in this folder, in later runs too"
}

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

// Complete returns what may follow the text before the cursor: candidates for the text
// from start on. args are the possible arguments of a command.
func Complete(before string, args func(command string) []string) (start int, candidates []string) {
	if rest, ok := strings.CutPrefix(before, "/"); ok && !strings.ContainsAny(rest, "/\n") {
		name, typed, found := strings.Cut(rest, " ")
		if !found {
			for _, c := range Commands() {
				if strings.HasPrefix(c.Name, name) {
					candidates = append(candidates, "/"+c.Name+strings.Repeat(" ", min(len(c.Args), 1)))
				}
			}
			return 0, candidates
		}
		switch name {
		case "save":
			candidates = files(typed)
		case "budget":
			candidates = []string{"usd=", "inputTokens=", "outputTokens=", "turns=", "calls=", "seconds="}
		default:
			candidates = args(name)
		}
		slices.Sort(candidates)
		return len(before) - len(typed), slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, typed) })
	}
	i := strings.LastIndexByte(before, '@')
	if i < 0 || i > 0 && !strings.ContainsRune(" \t\n(", rune(before[i-1])) {
		return 0, nil
	}
	typed, quoted := strings.CutPrefix(before[i+1:], `"`)
	if !quoted && strings.ContainsAny(typed, " \t\n") {
		return 0, nil
	}
	for _, path := range files(typed) {
		if (quoted || strings.Contains(path, " ")) && !strings.HasSuffix(path, "/") {
			path = `"` + path + `"`
		} else if quoted || strings.Contains(path, " ") {
			path = `"` + path
		}
		candidates = append(candidates, "@"+path)
	}
	return i, candidates
}

// Common is the longest text with which all candidates begin.
func Common(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	common := []rune(candidates[0])
	for _, c := range candidates[1:] {
		n := 0
		for _, r := range c {
			if n == len(common) || common[n] != r {
				break
			}
			n++
		}
		common = common[:n]
	}
	return string(common)
}

// files are the paths that begin with what is typed; folders end in a slash.
func files(typed string) []string {
	dir, base := filepath.Split(typed)
	entries, _ := os.ReadDir(cmp.Or(ExpandHome(dir), ".")) // a folder that cannot be read has none
	var list []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), base) || base == "" && e.Name()[0] == '.' || strings.ContainsAny(e.Name(), "\"\n") {
			continue
		}
		path := dir + e.Name()
		if info, err := os.Stat(ExpandHome(path)); err == nil && info.IsDir() {
			path += "/"
		}
		list = append(list, path)
	}
	return list
}
