package sandbox

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// startFiles are files in a working directory that git, editors, shells and other agents
// execute or obey without a question. homeFiles are those in the home folder.
var (
	startFiles = []string{".envrc", ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".dir-locals.el",
		".githooks", ".husky", ".claude", ".cursor", ".codex", ".gemini", ".mcp.json", "agents-exe.cfg.json"}
	homeFiles = []string{".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".config/fish", ".config/nushell", ".config/autostart",
		".config/systemd", ".config/environment.d", ".config/git", ".gitconfig", ".config/hg", ".hgrc", ".config/nvim", ".vim", ".emacs", ".emacs.d", ".local/bin", "bin", "Library/LaunchAgents"}
	// gitFiles name programs that git executes, in .git and in .git/modules/NAME.
	gitFiles = []string{"config", "config.worktree", "hooks", "commondir"}
	// hgFiles are those of Mercurial in .hg: hgrc has hooks and aliases.
	hgFiles = []string{"hgrc", "hgrc-not-shared", "sharedpath"}
	// repositories are folders in which only some files are protected, but that are not made.
	repositories = []string{".git", ".hg"}
)

// A protection lists the paths in writable folders that stay as they are, because they decide
// what is executed and no entry of Write names them.
type protection struct {
	exist []string // sorted; nothing is below another
	// absent are protected paths that do not exist yet. pin are the folders between a
	// writable folder and a protected path in it: they must not be renamed.
	absent, pin []string
}

// covers reports whether path is protected, also where it does not exist yet.
func (p *protection) covers(path string) bool {
	return slices.ContainsFunc(slices.Concat(p.exist, p.absent), func(q string) bool { return below(path, q) })
}

func (b *Box) protection() *protection {
	p := &protection{}
	if !b.confines() {
		return p
	}
	bases := b.config.Write
	if bases == nil {
		bases = []string{realPath(b.place.Dir)}
	}
	candidates := b.candidates(bases)
	for _, path := range candidates {
		base := deepest(bases, path)
		switch _, err := os.Lstat(path); {
		case base == "" && b.config.Write != nil, b.namedWritable(path, candidates):
		case err == nil && slices.Contains(repositories, filepath.Base(path)) && isFolder(path): // only files in it
		case err == nil:
			p.exist = append(p.exist, path)
			for dir := filepath.Dir(path); base != "" && dir != base; dir = filepath.Dir(dir) {
				p.pin = append(p.pin, dir)
			}
		case errors.Is(err, fs.ErrNotExist) && base != "" && isFolder(filepath.Dir(path)):
			p.absent = append(p.absent, path)
		}
	}
	p.exist = slices.DeleteFunc(p.exist, func(path string) bool {
		return slices.ContainsFunc(p.exist, func(q string) bool { return path != q && below(path, q) })
	})
	slices.Sort(p.pin)
	p.pin = slices.Compact(p.pin)
	return p
}

// lately returns a protection that is at most secretsAge old.
func (b *Box) lately() *protection {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept == nil || time.Since(b.keptAt) > secretsAge {
		b.kept, b.keptAt = b.protection(), time.Now()
	}
	return b.kept
}

// candidates returns the paths that decide what is executed, whether they exist or not, sorted.
func (b *Box) candidates(bases []string) (list []string) {
	dir := realPath(b.place.Dir)
	add := func(path string) {
		parent := filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path)) // it may be a link, which is protected too
		list = append(list, parent, realPath(path))
	}
	if b.place.Protected != nil {
		for _, path := range b.place.Protected() {
			if !below(dir, path) {
				add(path)
				continue
			}
			// The working directory itself cannot be read-only, so the programs in it are.
			entries, _ := os.ReadDir(path)
			for _, e := range entries {
				if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					add(filepath.Join(path, e.Name()))
				}
			}
		}
	}
	for _, base := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(bases), dir)))) {
		for _, name := range slices.Concat(startFiles, repositories) {
			add(filepath.Join(base, name))
		}
		for _, name := range hgFiles {
			add(filepath.Join(base, ".hg", name))
		}
		git := filepath.Join(base, ".git")
		modules, _ := filepath.Glob(literal(git) + "/modules/*")
		worktrees, _ := filepath.Glob(literal(git) + "/worktrees/*")
		for _, folder := range slices.Concat([]string{git}, modules, worktrees) {
			for _, name := range gitFiles {
				add(filepath.Join(folder, name))
			}
		}
		text, _ := os.ReadFile(filepath.Join(git, "config"))
		for _, found := range gitPaths().FindAllStringSubmatch(string(text), 20) {
			if path := strings.TrimSpace(found[1]); path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") {
				add(filepath.Join(base, path))
				add(filepath.Join(git, path)) // what include means
			}
		}
	}
	if b.place.Home != "" {
		for _, name := range homeFiles {
			add(filepath.Join(b.place.Home, name))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// namedWritable reports whether an entry of Write names a path that is protected, or a
// protected folder above it. The working directory names nothing.
func (b *Box) namedWritable(path string, candidates []string) bool {
	dir := realPath(b.place.Dir)
	return slices.ContainsFunc(b.config.Write, func(entry string) bool {
		return entry != dir && below(path, entry) &&
			slices.ContainsFunc(candidates, func(c string) bool { return below(entry, c) && !below(dir, c) })
	})
}

// deepest returns the longest entry of list that path is below, "" if there is none. A path
// is not below itself.
func deepest(list []string, path string) (deep string) {
	for _, entry := range list {
		if entry != path && below(path, entry) && len(entry) > len(deep) {
			deep = entry
		}
	}
	return deep
}

// gitPaths matches the paths in a git configuration that name included files and the folder
// of hooks.
var gitPaths = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^\s*(?:hookspath|path)\s*=\s*"?([^"#;\n]+)`)
})

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Unprotected reports whether a process in this sandbox can change path, which is one of
// Place.Protected or below one, on this machine although no entry of Write names it.
func (b *Box) Unprotected(path string) bool {
	if b.config.Write != nil && !b.covers(b.config.Write, path) || b.namedWritable(path, b.candidates(b.config.Write)) {
		return false
	}
	return b.enforcers(b.place.Ladder.Rung())["protected files"] == "" || !slices.ContainsFunc(b.protection().exist, func(p string) bool { return below(path, p) })
}

// setAside renames the paths of absent that exist after a call, so that programs which would
// execute them do not find them. It returns a line for each.
func (b *Box) setAside(absent []string) (said []string) {
	for _, path := range absent {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		base := deepest(b.config.Write, path)
		if base == "" {
			base = realPath(b.place.Dir)
		}
		root, err := os.OpenRoot(base) // a link to elsewhere is not followed
		if err != nil {
			continue
		}
		name, _ := filepath.Rel(base, path)
		to := name + ".from-sandbox-" + strings.ToLower(rand.Text()[:6])
		if root.Rename(name, to) == nil {
			said = append(said, `sandbox: `+path+` appeared during a call and decides what is executed outside; it was renamed to `+filepath.Base(to)+`, because "write" does not name it (if a person created it, that person can rename it back)`)
		}
		root.Close()
	}
	for _, line := range said {
		b.log(line)
	}
	return said
}
