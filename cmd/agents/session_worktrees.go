package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/leaf/workspace"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
)

func sessionWorktreesCommand(p *program.Env) *cli.Command {
	var diff, merge, remove, force bool
	return &cli.Command{
		ArgsUsage: "[NAME...]",
		Description: `A sub-agent with "workspace" in its agent file works in its own Git worktree, or in a copy of
the folder, so that it changes none of your files. Without flags, this command lists the
worktrees and copies of the Git repository or folder that you are in, or only the named
ones. With a flag, it shows, merges or removes the named ones.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "diff", Usage: "print the changes", Destination: &diff},
			&cli.BoolFlag{Name: "merge", Usage: "merge the changes, committed or not, into the current branch", Destination: &merge},
			&cli.BoolFlag{Name: "remove", Usage: "remove the worktree and its branch, or the copy, unless changes would be lost", Destination: &remove},
			&cli.BoolFlag{Name: "force", Usage: "with --remove: even if changes would be lost", Destination: &force},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if (diff || merge || remove) && !c.Args().Present() {
				return failure.Usage("`agents session worktrees` lists the names", "session worktrees: the name is missing")
			}
			if force && !remove {
				return failure.Usage("", "session worktrees: --force needs --remove")
			}
			works, err := worktrees(ctx, p, c.Args().Slice())
			if err != nil {
				return err
			}
			for _, w := range works {
				if err := workOn(ctx, p, w, diff, merge, remove, force); err != nil {
					return &failure.Error{Code: failure.ExitFailed, Err: fmt.Errorf("worktree %s: %w", w.Name, err)}
				}
			}
			return nil
		},
	}
}

// worktrees finds the worktrees with the given names, or all.
func worktrees(ctx context.Context, p *program.Env, names []string) ([]*workspace.Work, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	found, err := workspace.List(ctx, workspace.Place{Dir: dir, Environ: p.Environ})
	if len(names) == 0 || err != nil {
		return found, err
	}
	byName := map[string]*workspace.Work{}
	for _, w := range found {
		byName[w.Name] = w
	}
	var list []*workspace.Work
	for _, name := range names {
		if byName[name] == nil {
			return nil, failure.Usage("`agents session worktrees` lists them", "session worktrees: there is no worktree %q", name)
		}
		list = append(list, byName[name])
	}
	return list, nil
}

// workOn does what the flags say, in an order in which nothing is lost; without any it lists.
func workOn(ctx context.Context, p *program.Env, w *workspace.Work, diff, merge, remove, force bool) error {
	if !diff && !merge && !remove {
		return listWorktree(ctx, p, w)
	}
	if diff {
		text, err := w.Diff(ctx)
		fmt.Fprint(p.Out, termtext.Clean(text))
		if err != nil {
			return err
		}
	}
	if merge {
		text, err := w.Merge(ctx)
		fmt.Fprint(p.Out, termtext.Clean(text))
		if err != nil {
			return err
		}
	}
	if !remove {
		return nil
	}
	return w.Remove(ctx, force)
}

func listWorktree(ctx context.Context, p *program.Env, w *workspace.Work) error {
	state := "can be removed"
	lost, err := w.Unsafe(ctx)
	if err == nil && lost != "" {
		state = "has " + lost
	}
	fmt.Fprintf(p.Out, "%s  %s  agent %s: %s\n", w.Name, w.Created.Local().Format("2006-01-02 15:04"), program.OneLine(w.Agent, 60), program.OneLine(state, 500))
	if !w.Ready {
		return err
	}
	facts, factsErr := w.Facts(ctx)
	for _, commit := range facts.Commits {
		fmt.Fprintf(p.Out, "  commit %s\n", program.OneLine(commit, 200))
	}
	for _, path := range facts.Uncommitted {
		if w.Kind == workspace.Worktree {
			path = "not committed: " + path
		}
		fmt.Fprintf(p.Out, "  %s\n", program.OneLine(path, 200))
	}
	return errors.Join(err, factsErr)
}
