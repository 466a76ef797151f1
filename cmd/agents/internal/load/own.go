package load

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/config"
)

// renewed returns the Trust of the file at path, as Trusted does. If all that has changed since
// are own edits, it is that of the tree as it is now, which is stored.
func renewed(p *program.Env, path string) *Trust {
	t := Trusted(p, path)
	if t == nil || t.Folder == "" {
		return t
	}
	if _, now := SurveyFile(p, path); len(t.Changes(now)) > 0 && t.own(p, now) && now.Keep(p) == nil {
		return now
	}
	return t
}

// own reports whether this person made all changes from t to now. A person edits files; a
// stranger's files come with a new commit, an archive, or through what an agent does. So a
// changed file counts as the person's only if
//
//   - it and the folders above it, up to t.Folder, belong to this user, no one else can write
//     them, none of them is a link, and the file system is local, so that its clock is ours;
//   - it was last changed after t was kept, and at no time at which a run of any agent was going
//     on (the system, and nobody else, sets the time of that change, the ctime);
//   - no run was going on when the tree changed before;
//   - the repository, if there is one, has not moved to another commit since, except by commits
//     that were made in it, and the file is not in another repository, such as a submodule.
//
// A keys file is never own: whoever wrote it may be another person.
func (t *Trust) own(p *program.Env, now *Trust) bool {
	if t.Folder == "" || t.Touched || p.Getenv(EnvTrust) != "" || now.Tree.Readable() != nil || !local(t.Folder) {
		return false
	}
	if (&Trust{Tree: now.Tree, Keys: t.Keys}).Changes(&Trust{Tree: now.Tree, Keys: now.Keys}) != nil || !ownMoves(t.Folder, t.Moves) {
		return false
	}
	runs, err := readRuns(p)
	if err != nil {
		return false
	}
	names := maps.Clone(now.Tree.Files)
	maps.Copy(names, t.Tree.Files)
	for name := range names {
		if t.Tree.Files[name].Digest != now.Tree.Files[name].Digest && !t.ownFile(t.path(name), runs) {
			return false
		}
	}
	return true
}

// ownFile reports whether this person has changed, added or removed the file at path.
func (t *Trust) ownFile(path string, runs []interval) bool {
	if rel, err := filepath.Rel(t.Folder, path); err != nil || !filepath.IsLocal(rel) {
		return false
	}
	during := func(when time.Time) bool {
		return slices.ContainsFunc(runs, func(r interval) bool { return !when.Before(r.from) && when.Before(r.to) })
	}
	removed := false
	for at := path; ; at = filepath.Dir(at) {
		changed, err := private(at, at == path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != t.Folder:
			removed = true
			continue
		case err != nil:
			return false
		case at == path && changed.Before(t.Time.Add(-tick)):
			return false // another file was moved to its place
		case at != path && at != t.Folder && isRepository(at):
			return false // what moved it is not known
		case at != t.Folder || removed:
			// A file that a run changed, or a folder that it moved here, or removed something of.
			if during(changed) {
				return false
			}
			removed = false
		}
		if at == t.Folder {
			return true
		}
	}
}

func isRepository(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ".git"))
	return err == nil
}

// touch notes of each folder of this person that its tree has changed since from, when a run
// began: a later change by the person would hide that its tools may have made the first.
func touch(p *program.Env, from time.Time) {
	for _, t := range ListTrusted(p) {
		if t.Folder == "" || t.Touched || !t.changedSince(from) {
			continue
		}
		if _, now := SurveyFile(p, t.Path); len(t.Changes(now)) > 0 {
			t.Touched = true
			_ = t.write(p) // the log of runs has its time
		}
	}
}

// changedSince reports whether a file of the tree, or a folder that has one, may have changed, or
// a folder in such a folder: it may be one for tools that had none.
func (t *Trust) changedSince(from time.Time) bool {
	seen := map[string]bool{}
	for name := range t.Tree.Files {
		dir := filepath.Dir(t.path(name))
		if seen[dir] || !Below(t.Folder, dir) {
			continue
		}
		seen[dir] = true
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if changed, err := private(filepath.Join(dir, e.Name()), false); err == nil && !changed.Before(from) {
				return true
			}
		}
	}
	for name := range t.Tree.Files {
		for at, file := t.path(name), true; len(at) >= len(t.Folder); at, file = filepath.Dir(at), false {
			if changed, _ := private(at, file); changed.IsZero() || !changed.Before(from) {
				return true
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return false
}

// tick is how far the clock of a file system may be behind.
const tick = 50 * time.Millisecond

// moves returns the last line of the log in which the repository of a folder keeps which commits
// were checked out; "" if there is no log.
func moves(folder string) string {
	lines, _ := moveLog(folder)
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// ownMoves reports whether nothing but commits that were made here has moved the repository of a
// folder since its log ended with the line last.
func ownMoves(folder, last string) bool {
	lines, err := moveLog(folder)
	if err != nil {
		return false
	}
	if i := slices.Index(lines, last); i >= 0 {
		lines = lines[i+1:]
	} else if last != "" {
		return false // the log was shortened
	}
	return !slices.ContainsFunc(lines, func(line string) bool {
		_, message, _ := strings.Cut(line, "\t")
		return !strings.HasPrefix(message, "commit: ") && !strings.HasPrefix(message, "commit (amend): ") && !strings.HasPrefix(message, "commit (initial): ")
	})
}

// moveLog reads the log of HEAD of the repository that a folder is in. It is an error that a
// repository with commits keeps none.
func moveLog(folder string) ([]string, error) {
	if folder == "" {
		return nil, nil
	}
	for dir := folder; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		info, err := os.Stat(git)
		switch {
		case err == nil && !info.IsDir(): // of a worktree or a submodule
			text, err := os.ReadFile(git)
			to, named := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
			if err != nil || !named {
				return nil, errors.Join(err, errors.New(".git is not known"))
			}
			if git = to; !filepath.IsAbs(git) {
				git = filepath.Join(dir, git)
			}
		case err != nil && dir == filepath.Dir(dir):
			return nil, nil
		case err != nil:
			continue
		}
		text, _, err := config.ReadRegular(filepath.Join(git, "logs", "HEAD"), 16<<20)
		if errors.Is(err, fs.ErrNotExist) {
			heads, _ := filepath.Glob(filepath.Join(git, "refs", "heads", "*"))
			if _, packed := os.Stat(filepath.Join(git, "packed-refs")); len(heads) == 0 && packed != nil {
				return nil, nil // nothing was committed yet
			}
		}
		if err != nil {
			return nil, err
		}
		return strings.Split(string(bytes.TrimSpace(text)), "\n"), nil
	}
}
