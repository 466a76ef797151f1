// Package input reads what a person types in a conversation with an agent: commands,
// files to include, and commands of the shell. The chat in plain lines, the terminal
// interface and editors share it, so that one table has all commands.
package input

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/closest"
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
