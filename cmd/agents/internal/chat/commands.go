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
	"github.com/agents-exe/agents/pkg/closest"
	"github.com/agents-exe/agents/pkg/termtext"
	"github.com/agents-exe/agents/pkg/view"
)

// A verb is a command of the chat.
type verb struct {
	name, args, usage string
	idle              bool // not during a run
	do                func(t *terminal, ctx context.Context, args string) error
}

// verbs are the commands in the order of /help. It is a function because nothing is built
// for programs that do not chat.
func verbs() []verb {
	return []verb{
		{name: "help", usage: "this list", do: (*terminal).help},
		{name: "agents", usage: "the agents of this tree, and others that can be chosen", do: (*terminal).agents},
		{name: "agent", args: "SLUG", usage: "begin a new conversation with another agent", idle: true, do: (*terminal).choose},
		{name: "tools", usage: "the tools of the agent", do: (*terminal).tools},
		{name: "model", args: "NAME", usage: "use another model for what follows, or SLUG=NAME in one agent", idle: true, do: (*terminal).model},
		{name: "cost", usage: "what the conversation has consumed", do: (*terminal).cost},
		{name: "budget", args: "AMOUNT=NUMBER", usage: "limit each run that follows, as usd=1,seconds=600", do: (*terminal).budget},
		{name: "undo", usage: "take back the last message and what followed, in a copy of the session", idle: true, do: (*terminal).undo},
		{name: "fork", usage: "continue in a copy of the session", idle: true, do: (*terminal).fork},
		{name: "save", args: "FILE", usage: "write the conversation as Markdown", do: (*terminal).save},
		{name: "compact", usage: "shorten the conversation for the model", do: (*terminal).compact},
		{name: "attach", args: "SESSION|URL", usage: "watch and steer a run of a server; without an argument, list these runs", idle: true, do: (*terminal).attach},
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

// command runs a command.
func (t *terminal) command(ctx context.Context, name, args string) error {
	var names []string
	for _, v := range verbs() {
		if v.name != name {
			names = append(names, "/"+v.name)
			continue
		}
		switch {
		case v.idle && (t.run != nil || t.job != nil):
			return fmt.Errorf("/%s cannot be used while something is running; Ctrl-C stops it", name)
		case args == "" && v.args != "" && name != "attach" && name != "budget" && name != "model":
			return fmt.Errorf("usage: /%s %s", name, v.args)
		case args != "" && v.args == "":
			return fmt.Errorf("/%s takes no argument", name)
		}
		return v.do(t, ctx, args)
	}
	return fmt.Errorf("there is no command /%s%s", name, cmp.Or(closest.Hint("/"+name, names), "; /help lists them"))
}

func (t *terminal) help(context.Context, string) error {
	for _, v := range verbs() {
		t.explain("/"+v.name+" "+v.args, v.usage)
	}
	t.explain("@FILE", "include a file; Tab completes its name")
	t.explain("!COMMAND", "run a command of the shell; its output goes along with the next message")
	t.explain(`\ Enter`, "continue on a new line, as Alt-Enter and Ctrl-J")
	t.explain("Ctrl-R", "find what was typed before")
	t.explain("Ctrl-C", "stop what is running; Ctrl-D leaves")
	return nil
}

// explain prints a name and what it means, in lines of the terminal.
func (t *terminal) explain(name, meaning string) {
	const column = 26
	columns, _ := size()
	line := fmt.Sprintf("  %-*s", column-2, strings.TrimSpace(name))
	if columns < 2*column {
		fmt.Fprintln(t.out, line)
		fmt.Fprint(t.out, wrap("    "+meaning, columns-1, 4))
		return
	}
	fmt.Fprint(t.out, wrap(line+meaning, columns-1, column))
}

func (t *terminal) agents(context.Context, string) error {
	for _, n := range t.tree.Nodes {
		depth := 1
		if n.Agent != t.tree.Root {
			depth = 2
		}
		t.entry(depth, n.Agent.Slug, cmp.Or(n.Agent.Model, n.Agent.Flavor), n.File.Spec.Announce)
	}
	others := t.others()
	for _, slug := range slices.Sorted(maps.Keys(others)) {
		t.entry(1, slug, "", others[slug])
	}
	return nil
}

// others are agents that are not in the tree and can be chosen, with what they are.
func (t *terminal) others() map[string]string {
	list := map[string]string{}
	files, _ := load.Candidates(t.p, t.tree.Config) // what is not trusted is not read
	for _, path := range files {
		f, _, err := agentfile.Read(path)
		if err != nil {
			continue
		}
		for _, slug := range f.Slugs {
			if slug != t.tree.Root.Slug {
				list[slug] = f.Spec.Announce
			}
		}
	}
	return list
}

// entry prints a line of a list.
func (t *terminal) entry(depth int, name, detail, about string) {
	columns, _ := size()
	line := strings.Repeat("  ", depth) + termtext.Clean(name)
	if detail != "" {
		line += " (" + termtext.Clean(detail) + ")"
	}
	if about != "" {
		line += "  " + program.OneLine(about, 200)
	}
	fmt.Fprintln(t.out, termtext.Cut(line, columns-1, "…"))
}

func (t *terminal) choose(ctx context.Context, slug string) error {
	before, models := t.p.Global.Agent, t.Models
	t.p.Global.Agent, t.Models = slug, nil
	if err := t.load(ctx, load.Options{}); err != nil {
		t.p.Global.Agent, t.Models = before, models
		return err
	}
	t.show.tree = view.Tree{}
	t.kept.Release()
	t.say("a new conversation with %s", t.tree.Root.Slug)
	return t.chat.begin()
}

func (t *terminal) tools(context.Context, string) error {
	for _, n := range t.tree.Nodes {
		if n.Agent != t.tree.Root {
			continue
		}
		for _, tool := range n.Tools {
			kind := ""
			if tool.Agent != "" {
				kind = "agent"
			}
			t.entry(1, tool.Name, kind, tool.Description)
		}
		if len(n.Tools) == 0 {
			t.say("  none")
		}
	}
	return nil
}

func (t *terminal) model(ctx context.Context, name string) error {
	if name == "" {
		t.say("  %s", cmp.Or(t.tree.Root.Model, t.tree.Root.Flavor))
		return nil
	}
	slug, model, ok := strings.Cut(name, "=")
	if !ok {
		slug, model = "", name
	}
	before := t.Models
	if t.Models = maps.Clone(before); t.Models == nil {
		t.Models = load.Models{}
	}
	choice := t.Models[slug]
	choice.Name = model
	t.Models[slug] = choice
	if err := t.load(ctx, load.Options{File: t.tree.Nodes[0].File.Path, Agent: t.tree.Root.Slug}); err != nil {
		t.Models = before
		return err
	}
	t.say("  %s", cmp.Or(t.tree.Root.Model, t.tree.Root.Flavor))
	return nil
}

func (t *terminal) cost(context.Context, string) error {
	total, since := t.total, ""
	if events := t.session(); events != nil {
		total = agent.TotalUsage{}
		for e, err := range events {
			if err != nil {
				return err
			}
			total.Note(&e)
		}
	} else {
		since = " since the chat began"
	}
	if total.Usage.Requests == 0 {
		t.say("  nothing yet")
		return nil
	}
	for _, slug := range slices.Sorted(maps.Keys(total.Agents)) {
		t.spent(slug, total.Agents[slug], "")
	}
	t.spent("all", total.Usage, since)
	return nil
}

func (t *terminal) spent(who string, u agent.Usage, since string) {
	t.say("  %-20s %3d %-8s  %s  %s%s", who, u.Requests, program.Plural(u.Requests, "request"), u.TokenText(), u.CostText(), since)
}

func (t *terminal) budget(_ context.Context, amounts string) error {
	if amounts != "" {
		f := t.Budget
		if err := f.Set(amounts); err != nil {
			return fmt.Errorf("/budget %s: %w", amounts, err)
		}
		t.Budget = f
	}
	t.say("  each run: %s", cmp.Or(t.Budget.Budget.String(), "no limits except those of the agent file"))
	return nil
}

// edit opens the person's editor with what is typed so far.
func (t *terminal) edit(context.Context, string) error {
	if t.tty == nil {
		return errors.New("/edit needs a terminal with a line editor")
	}
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
