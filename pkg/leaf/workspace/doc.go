// Package workspace makes folders in which one call of an agent works: worktrees of a Git
// repository, or copies of a folder.
//
// A workspace NAME of a repository is the folder .agents/worktrees/NAME in its working tree,
// with the branch agents/NAME/work. Beside it is the note NAME.json, which is written before
// anything else and removed after everything else, so that List finds what a process left that
// was killed.
//
//	w, err := workspace.Open(ctx, workspace.Place{Dir: dir, Environ: env}, workspace.Options{Key: "S.1.1"})
//	…
//	facts, err := w.Facts(ctx)
//
// Beside a copy is also NAME.files, which says what the files were like that were copied: what
// changed in the folder since then is not overwritten.
//
// Nothing of the repository is executed: Git runs without hooks, file system monitors, and the
// filters and merge drivers that its own configuration has. Nothing that an agent can write is
// trusted: Git reads the configuration of the repository and not that of the worktree, and
// compares contents and not times.
package workspace
