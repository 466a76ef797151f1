package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/compat"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/urfave/cli/v3"
)

// root is the tree of commands. It is built for every start. A command that the words
// do not name has only its name and usage; without words the tree is complete.
func root(p *program.Env, words ...string) *cli.Command {
	c := &cli.Command{
		Name:        "agents",
		Usage:       "run agents whose tools are executables",
		Version:     p.Version,
		Description: failure.Codes,
		Reader:      p.In, Writer: p.Out, ErrWriter: p.Err,
		HideHelpCommand: true,
		// A file's name may hold a comma.
		DisableSliceFlagSeparator: true,
		Suggest:                   true,
		ExitErrHandler:            func(context.Context, *cli.Command, error) {},
		Flags:                     command.GlobalFlags(&p.Global),
		Action: func(ctx context.Context, c *cli.Command) error {
			if name := c.Args().First(); name != "" {
				return failure.Usage("`agents --help` lists the commands", "there is no command %q%s", name, command.DidYouMean(name, c))
			}
			return withoutCommand(ctx, p, func() error { return root(p, "init").Run(ctx, []string{"agents", "init"}) })
		},
		Commands: commands(p, table(), words),
	}
	cli.VersionPrinter = func(c *cli.Command) { fmt.Fprintf(c.Root().Writer, "agents %s\n", versionLine(p)) }
	_ = c.Walk(func(c *cli.Command) error {
		c.OnUsageError = command.UsageError
		c.DisableSliceFlagSeparator = true
		// --help after an argument that is not a command.
		c.CommandNotFound = func(ctx context.Context, c *cli.Command, _ string) {
			if above := c.Lineage()[1:]; len(above) > 0 {
				_ = cli.ShowCommandHelp(ctx, above[0], c.Name)
			} else {
				_ = cli.ShowRootCommandHelp(c)
			}
		}
		return nil
	})
	return c
}

// An entry is a command in the table: its file has the function that builds it.
type entry struct {
	name, usage string
	build       func(*program.Env) *cli.Command
	below       []entry // of a command that only holds others
	compat      bool    // it is that of agents-exe, hidden, and may run others
}

// table is the table of commands. A file of a command refers to no other.
func table() []entry {
	return []entry{
		{name: "run", usage: "answer one prompt; the answer goes to stdout", build: runCommand},
		{name: "cli", usage: "talk with an agent; `agents` without a command does this at a terminal", build: cliCommand},
		{name: "tui", usage: "the same with the tree: watch and direct every agent of it", build: tuiCommand},
		{name: "replay", usage: "run a recorded session again, with the model and the tools served from it", build: replayCommand},
		{name: "check", usage: "load everything and report every problem", build: checkCommand},
		{name: "lock", usage: "write agents.lock: what the agent's tree consists of, for --locked", build: lockCommand},
		{name: "trust", usage: "review the files found here, and allow them to run", build: trustCommand},
		{name: "describe", usage: "print the agent as a tool description", build: describeCommand},
		{name: "echo-prompt", usage: "print the prompt that run would send; no model is called", build: echoPromptCommand},
		{name: "doctor", usage: "check the whole setup, for you and for a bug report", build: doctorCommand},
		{name: "paths", usage: "show which files and folders are in effect, and why", build: pathsCommand},
		{name: "prices", usage: "list what models cost, with source and date", build: pricesCommand},
		{name: "init", usage: "write a first agent: an assistant for this folder, or another", build: initCommand},
		{name: "new", usage: "write the beginning of an agent or a tool, or the wrapper of an agent", below: []entry{
			{name: "agent", usage: "write SLUG.json and its folder of tools, SLUG-tools", build: newAgentCommand},
			{name: "tool", usage: "write a working tool for you to change", build: newToolCommand},
			{name: "wrapper", usage: "write a script that makes an agent a tool, in a process of its own or elsewhere", build: newWrapperCommand},
		}},
		{name: "tool", usage: "work on one tool without a model", below: []entry{
			{name: "describe", usage: "run `PATH describe` and print what the runtime makes of it", build: toolDescribeCommand},
			{name: "call", usage: "call one tool as a model would; its result goes to stdout", build: toolCallCommand},
			{name: "test", usage: "test that executables keep the contract of a tool", build: toolTestCommand},
		}},
		{name: "toolbox", usage: "list, describe or run the tools of a folder, for an agent on another machine", build: toolboxCommand},
		{name: "keys", usage: "keep keys in your configuration folder", below: []entry{
			{name: "set", usage: "add a key, or replace it", build: keysSetCommand},
			{name: "list", usage: "list keys, without their values", build: keysListCommand},
			{name: "rm", usage: "remove a key", build: keysRmCommand},
		}},
		{name: "mcp", usage: "sign in to MCP servers", below: []entry{
			{name: "login", usage: "sign in to a server with a browser", build: mcpLoginCommand},
			{name: "logout", usage: "delete the sign-in to a server", build: mcpLogoutCommand},
			{name: "list", usage: "list the MCP servers of the agent's tree and their sign-ins", build: mcpListCommand},
		}},
		{name: "test", usage: "run tests of agents without their models", build: testCommand},
		{name: "session", usage: "work on sessions of earlier runs", build: sessionCommand, below: []entry{
			{name: "list", usage: "list sessions, those that changed last first", build: sessionListCommand},
			{name: "show", usage: "print a session as Markdown", build: sessionShowCommand},
			{name: "calls", usage: "print every tool call of a session, with those of sub-agents", build: sessionCallsCommand},
			{name: "replay-call", usage: "make one recorded call again; its result goes to stdout", build: sessionReplayCallCommand},
			{name: "cost", usage: "print what each agent of a session consumed and cost", build: sessionCostCommand},
			{name: "audit", usage: "print what a session did under which rules, and whether its journal was changed", build: sessionAuditCommand},
			{name: "search", usage: "find words in all sessions", build: sessionSearchCommand},
			{name: "export", usage: "print a session as a web page, Markdown, JSON or in another format", build: sessionExportCommand},
			{name: "import", usage: "add a session that was exported, the folder of one, or one of agents-exe, and print its new id", build: sessionImportCommand},
			{name: "fork", usage: "copy a session up to a turn, and print the id of the copy", build: sessionForkCommand},
			{name: "undo", usage: "restore the files that an agent changed", build: sessionUndoCommand},
			{name: "edit", usage: "write a changed session to stdout, for import", build: sessionEditCommand},
			{name: "rm", usage: "remove sessions", build: sessionRmCommand},
			{name: "worktrees", usage: "list, merge and remove the worktrees and copies of sub-agents", build: sessionWorktreesCommand},
		}},
		{name: "mcp-server", usage: "serve agents as tools of the Model Context Protocol, on standard input and output or over HTTP", build: mcpServerCommand},
		{name: "serve", usage: "serve agents over HTTP: WebSocket, OpenAI's API, MCP, A2A, metrics", build: serveCommand},
		{name: "acp", usage: "serve an agent to an editor, over the Agent Client Protocol", build: acpCommand},
		{name: "completion", usage: "print a script that completes commands in a shell", build: completionCommand},
		{name: "schema", usage: "print the JSON Schema of a file that you write", build: schemaCommand},
		{name: "help", usage: "print a page of the manual", build: helpCommand},
		{name: "man", usage: "print the manual page", build: manCommand},
		{name: "session-print", usage: "the command session show, under its name in agents-exe", build: compat.SessionPrint, compat: true},
		{name: "session-edit", usage: "the command session edit, under its name in agents-exe", build: compat.SessionEdit, compat: true},
		{name: "session-search", usage: "the command session search, under its name in agents-exe", build: compat.SessionSearch, compat: true},
		{name: "session-index", usage: "no command here: session search updates its index by itself", build: compat.SessionIndex, compat: true},
		{name: "list-tool-calls", usage: "the command session calls, under its name in agents-exe", build: compat.ListToolCalls, compat: true},
		{name: "tool-call", usage: "the command tool call, under its name in agents-exe", build: compat.ToolCall, compat: true},
		{name: "describe-tool", usage: "the command tool describe, under its name in agents-exe", build: compat.DescribeTool, compat: true},
		{name: "check-tool-call", usage: "check the arguments of a call, without running it", build: compat.CheckToolCall, compat: true},
		{name: "replay-tool-call", usage: "the command session replay-call, under its name in agents-exe", build: compat.ReplayToolCall, compat: true},
		{name: "spec", usage: "the command help tools, under its name in agents-exe", build: compat.Spec, compat: true},
		{name: "config", usage: "the commands keys and init, under their names in agents-exe", build: compat.Config, compat: true},
	}
}

// commands builds the commands of a table. To build the flags of all of them, and
// the library's look at each, takes longer than all else that main does, so of a
// command that is not among the words only the name and the usage are there, unless
// there are no words. The manual page and the completion need all of them.
func commands(p *program.Env, list []entry, words []string) []*cli.Command {
	all := len(words) == 0 || slices.Contains(words, "man") || slices.Contains(words, "completion") || slices.Contains(words, "help") ||
		slices.ContainsFunc(list, func(l entry) bool { return l.compat && slices.Contains(words, l.name) })
	var built []*cli.Command
	for _, l := range list {
		c := &cli.Command{}
		if all || slices.Contains(words, l.name) {
			if l.build != nil {
				c = l.build(p)
			}
			if l.below != nil {
				c.Commands = append(c.Commands, commands(p, l.below, nil)...)
				command.Group(c)
			}
		}
		c.Name, c.Usage, c.Hidden = l.name, l.usage, l.compat
		built = append(built, c)
	}
	return built
}
