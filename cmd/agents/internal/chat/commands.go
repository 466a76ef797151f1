package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/load"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// A verb is a command of the chat.
type verb struct {
	name, args, usage string
	idle              bool // not during a run
	lone              bool // args may be left out
	editor            bool // editors have it too
	anew              bool // another conversation follows
	// text does the command and returns what to show; nil if only do does it. show prints that;
	// nil is say.
	text func(c *chat, ctx context.Context, args string) (string, error)
	show func(c *chat, text string)
	// do does the command at a terminal with a line editor, in place of text.
	do func(t *terminal, ctx context.Context, args string) error
}

// verbs are the commands in the order of /help. It is a function because nothing is built
// for programs that do not chat.
func verbs() []verb {
	return []verb{
		{name: "help", usage: "this list", text: (*chat).help, show: (*chat).columns},
		{name: "agents", usage: "the agents of this tree, and others that can be chosen", editor: true, text: (*chat).agents, show: (*chat).list},
		{name: "agent", args: "SLUG", usage: "begin a new conversation with another agent", idle: true, anew: true, text: (*chat).choose},
		{name: "tools", usage: "the tools of the agent", editor: true, text: (*chat).tools, show: (*chat).list},
		{name: "model", args: "NAME", usage: "use another model for what follows, or SLUG=NAME in one agent", idle: true, lone: true, editor: true, text: (*chat).model},
		{name: "cost", usage: "what the conversation has consumed", editor: true, text: (*chat).cost},
		{name: "budget", args: "AMOUNT=NUMBER", usage: "limit each run that follows, as usd=1,seconds=600", lone: true, editor: true, text: (*chat).budget},
		{name: "undo", usage: "take back the last message and what followed, in a copy of the session", idle: true, anew: true, text: (*chat).undo},
		{name: "fork", usage: "continue in a copy of the session", idle: true, text: (*chat).fork},
		{name: "save", args: "FILE", usage: "write the conversation as Markdown", text: (*chat).save},
		{name: "compact", usage: "shorten the conversation for the model", editor: true, text: (*chat).compact},
		{name: "attach", args: "SESSION|URL", usage: "watch and steer a run of a server; without an argument, list these runs", idle: true, lone: true, do: (*terminal).attach},
		{name: "edit", usage: "write the message in $VISUAL or $EDITOR", idle: true, do: (*terminal).edit},
		{name: "quit", usage: "leave", do: func(t *terminal, _ context.Context, _ string) error { t.quit = true; return nil }},
	}
}

// slash splits a command line. A path is not a command; the words that leave other programs,
// such as exit, are.
func slash(text string) (name, args string, ok bool) {
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

// verbFor returns a command for which args are possible.
func verbFor(name, args string) (*verb, error) {
	var names []string
	for _, v := range verbs() {
		switch {
		case v.name != name:
			names = append(names, "/"+v.name)
		case args == "" && v.args != "" && !v.lone:
			return nil, fmt.Errorf("usage: /%s %s", name, v.args)
		case args != "" && v.args == "":
			return nil, fmt.Errorf("/%s takes no argument", name)
		default:
			return &v, nil
		}
	}
	return nil, fmt.Errorf("there is no command /%s%s", name, cmp.Or(closest.Hint("/"+name, names), "; /help lists them"))
}

// command does a command and prints its text.
func (c *chat) command(ctx context.Context, v *verb, args string) error {
	if v.text == nil {
		return fmt.Errorf("/%s needs a terminal with a line editor", v.name)
	}
	text, err := v.text(c, ctx, args)
	switch {
	case err != nil:
		return err
	case v.show != nil:
		v.show(c, text)
	default:
		c.say("%s", strings.TrimSuffix(text, "\n"))
	}
	return nil
}

// command does a command.
func (t *terminal) command(ctx context.Context, name, args string) error {
	v, err := verbFor(name, args)
	switch {
	case err != nil:
		return err
	case v.idle && (t.run != nil || t.job != nil):
		return fmt.Errorf("/%s cannot be used while something is running; Ctrl-C stops it", name)
	case v.do != nil:
		return v.do(t, ctx, args)
	}
	if err = t.chat.command(ctx, v, args); err == nil && v.anew {
		t.show.tree = view.Tree{}
	}
	return err
}

// help returns lines of a name, a tab and what it means.
func (c *chat) help(context.Context, string) (string, error) {
	var b strings.Builder
	for _, v := range verbs() {
		fmt.Fprintf(&b, "%s\t%s\n", strings.TrimSpace("/"+v.name+" "+v.args), v.usage)
	}
	b.WriteString(`@FILE	include a file; Tab completes its name
!COMMAND	run a command of the shell; its output goes along with the next message
\ Enter	continue on a new line, as Alt-Enter and Ctrl-J
Ctrl-R	find what was typed before
Ctrl-C	stop what is running; Ctrl-D leaves
`)
	return b.String(), nil
}

// columns prints names and what they mean.
func (c *chat) columns(text string) {
	const column = 26
	columns, _ := size()
	for line := range strings.Lines(text) {
		name, meaning, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		name = fmt.Sprintf("  %-*s", column-2, name)
		if columns < 2*column {
			fmt.Fprintln(c.out, name)
			fmt.Fprint(c.out, wrap("    "+meaning, columns-1, 4))
			continue
		}
		fmt.Fprint(c.out, wrap(name+meaning, columns-1, column))
	}
}

func (c *chat) agents(context.Context, string) (string, error) {
	var b strings.Builder
	for _, n := range c.tree.Nodes {
		depth := 1
		if n.Agent != c.tree.Root {
			depth = 2
		}
		b.WriteString(entry(depth, n.Agent.Slug, cmp.Or(n.Agent.Model, n.Agent.Flavor), n.File.Spec.Announce))
	}
	others := c.others()
	for _, slug := range slices.Sorted(maps.Keys(others)) {
		b.WriteString(entry(1, slug, "", others[slug]))
	}
	return b.String(), nil
}

// others are agents that are not in the tree and can be chosen, with what they are.
func (c *chat) others() map[string]string {
	list := map[string]string{}
	files, _ := load.Candidates(c.p, c.tree.Config) // what is not trusted is not read
	for _, path := range files {
		f, _, err := agentfile.Read(path)
		if err != nil {
			continue
		}
		for _, slug := range f.Slugs {
			if slug != c.tree.Root.Slug {
				list[slug] = f.Spec.Announce
			}
		}
	}
	return list
}

// entry returns a line of a list.
func entry(depth int, name, detail, about string) string {
	line := strings.Repeat("  ", depth) + termtext.Clean(name)
	if detail != "" {
		line += " (" + termtext.Clean(detail) + ")"
	}
	if about != "" {
		line += "  " + program.OneLine(about, 200)
	}
	return line + "\n"
}

// list prints entries, each on one line of the terminal.
func (c *chat) list(text string) {
	columns, _ := size()
	for line := range strings.Lines(text) {
		fmt.Fprintln(c.out, termtext.Cut(strings.TrimSuffix(line, "\n"), columns-1, "…"))
	}
}

func (c *chat) choose(ctx context.Context, slug string) (string, error) {
	before, models := c.p.Global.Agent, c.Models
	c.p.Global.Agent, c.Models = slug, nil
	if err := c.load(ctx, load.Options{}); err != nil {
		c.p.Global.Agent, c.Models = before, models
		return "", err
	}
	c.kept.Release()
	return "a new conversation with " + c.tree.Root.Slug, c.begin()
}

func (c *chat) tools(context.Context, string) (string, error) {
	var b strings.Builder
	for _, n := range c.tree.Nodes {
		if n.Agent != c.tree.Root {
			continue
		}
		for _, tool := range n.Tools {
			kind := ""
			if tool.Agent != "" {
				kind = "agent"
			}
			b.WriteString(entry(1, tool.Name, kind, tool.Description))
		}
	}
	return cmp.Or(b.String(), "  none\n"), nil
}

func (c *chat) model(ctx context.Context, name string) (string, error) {
	if name != "" {
		slug, model, ok := strings.Cut(name, "=")
		if !ok {
			slug, model = "", name
		}
		before := c.Models
		if c.Models = maps.Clone(before); c.Models == nil {
			c.Models = load.Models{}
		}
		choice := c.Models[slug]
		choice.Name = model
		c.Models[slug] = choice
		if err := c.load(ctx, load.Options{File: c.tree.Nodes[0].File.Path, Agent: c.tree.Root.Slug}); err != nil {
			c.Models = before
			return "", err
		}
	}
	return "  " + cmp.Or(c.tree.Root.Model, c.tree.Root.Flavor), nil
}

func (c *chat) cost(context.Context, string) (string, error) {
	total, since := c.total, ""
	if events := c.session(); events != nil {
		total = agent.TotalUsage{}
		for e, err := range events {
			if err != nil {
				return "", err
			}
			total.Note(&e)
		}
	} else {
		since = " since the chat began"
	}
	if total.Usage.Requests == 0 {
		return "  nothing yet", nil
	}
	var b strings.Builder
	spent := func(who string, u agent.Usage, since string) {
		fmt.Fprintf(&b, "  %-20s %3d %-8s  %s  %s%s\n", who, u.Requests, program.Plural(u.Requests, "request"), u.TokenText(), u.CostText(), since)
	}
	for _, slug := range slices.Sorted(maps.Keys(total.Agents)) {
		spent(slug, total.Agents[slug], "")
	}
	spent("all", total.Usage, since)
	return b.String(), nil
}

func (c *chat) budget(_ context.Context, amounts string) (string, error) {
	if amounts != "" {
		f := c.Budget
		if err := f.Set(amounts); err != nil {
			return "", fmt.Errorf("/budget %s: %w", amounts, err)
		}
		c.Budget = f
	}
	return "  each run: " + cmp.Or(c.Budget.Budget.String(), "no limits except those of the agent file"), nil
}

// compact has the conversation shortened: during a run before its next request, otherwise
// with the next message.
func (c *chat) compact(context.Context, string) (string, error) {
	var err error
	switch {
	case c.attached != nil:
		err = c.attached.Direct(agent.Directive{Compact: true})
	case c.running != nil:
		c.running.Direct(agent.Directive{Compact: true})
	default:
		c.shorten = true
	}
	return "  the conversation will be shortened before the next request", err
}

// edit opens the person's editor with what is typed so far.
func (t *terminal) edit(context.Context, string) error {
	editor := cmp.Or(t.p.Getenv("VISUAL"), t.p.Getenv("EDITOR"), "vi")
	f, err := os.CreateTemp("", "message-*.md")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	t.screen.Hide()
	t.tty.Pause()
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, f.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.p.In, os.Stdout, os.Stderr
	t.p.Editing.Lock()
	err = cmd.Run()
	t.p.Editing.Unlock()
	resumed := t.tty.Resume()
	t.screen.Show()
	if err = errors.Join(err, resumed); err != nil {
		return fmt.Errorf("edit with %s: %w", editor, err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	t.editor.Set("")
	t.editor.Paste(strings.TrimRight(string(text), "\n"))
	return nil
}

// complete returns what may follow in a command, or the files that @ may name.
func (t *terminal) complete(before string) (start int, candidates []string) {
	if rest, ok := strings.CutPrefix(before, "/"); ok && !strings.ContainsAny(rest, "/\n") {
		name, args, found := strings.Cut(rest, " ")
		if !found {
			for _, v := range verbs() {
				if strings.HasPrefix(v.name, name) {
					candidates = append(candidates, "/"+v.name+strings.Repeat(" ", min(len(v.args), 1)))
				}
			}
			return 0, candidates
		}
		return len(before) - len(args), t.completeArgs(name, args)
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

func (t *terminal) completeArgs(name, args string) (candidates []string) {
	var all []string
	switch name {
	case "agent":
		for slug := range t.others() {
			all = append(all, slug)
		}
	case "save":
		return files(args)
	case "budget":
		all = []string{"usd=", "tokens=", "calls=", "seconds="}
	case "attach":
		all = t.attachable()
	}
	for _, a := range all {
		if strings.HasPrefix(a, args) {
			candidates = append(candidates, a)
		}
	}
	slices.Sort(candidates)
	return candidates
}

// files are the paths that begin with what is typed; folders end in a slash.
func files(typed string) []string {
	dir, base := filepath.Split(typed)
	entries, _ := os.ReadDir(cmp.Or(program.ExpandHome(dir), ".")) // a folder that cannot be read has none
	var list []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), base) || base == "" && e.Name()[0] == '.' || strings.ContainsAny(e.Name(), "\"\n") {
			continue
		}
		path := dir + e.Name()
		if info, err := os.Stat(program.ExpandHome(path)); err == nil && info.IsDir() {
			path += "/"
		}
		list = append(list, path)
	}
	return list
}
