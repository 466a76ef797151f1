package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/filemode"
)

// scripts are the endings of files that interpreters execute.
var scripts = []string{".cjs", ".jar", ".js", ".mjs", ".php", ".pl", ".py", ".rb", ".sh", ".ts"}

// IsPath reports whether the name of a program is a path, which is not looked for in PATH.
func IsPath(name string) bool { return strings.ContainsAny(name, separators) }

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && filemode.Of(file, info)&0o111 != 0
}

// firstExecutable returns the first of the files that a program of this name can be; file if
// there is none.
func firstExecutable(file string) string {
	if files := programFiles(file); len(files) > 1 {
		if i := slices.IndexFunc(files, isExecutable); i >= 0 {
			return files[i]
		}
	}
	return file
}

// LookPath is the file of a program: a name without a slash is looked for in the
// folders of the PATH of env, any other is returned as it is. On Windows, the extensions
// .com, .exe, .bat and .cmd are added to a name without one.
func LookPath(name string, env []string) (string, error) {
	if IsPath(name) {
		return firstExecutable(name), nil
	}
	var list string
	for _, kv := range env {
		if name, v, _ := strings.Cut(kv, "="); name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			list = v
		}
	}
	for _, dir := range filepath.SplitList(list) {
		// A relative folder would depend on where the program is started.
		if !filepath.IsAbs(dir) {
			continue
		}
		if file := firstExecutable(filepath.Join(dir, name)); isExecutable(file) {
			return file, nil
		}
	}
	if list == "" {
		return "", fmt.Errorf("start %s: its environment has no PATH to look in: %w", name, fs.ErrNotExist)
	}
	return "", fmt.Errorf("start %s: it is in none of the folders of PATH (%s): %w", name, list, fs.ErrNotExist)
}

// Programs are the files that the command line executes, as far as it names them:
// its program, which LookPath finds, and the scripts and programs among the
// arguments. What these load is not among them. Relative paths start at dir.
func Programs(line, env []string, dir string) []string {
	absolute := func(file string) string {
		if filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(dir, file)
	}
	var files []string
	if file, err := LookPath(line[0], env); err == nil {
		files = append(files, absolute(file))
	}
	for _, arg := range line[1:] {
		file := absolute(arg)
		if isExecutable(file) || slices.Contains(scripts, strings.ToLower(filepath.Ext(arg))) {
			files = append(files, file)
		}
	}
	return files
}

// A Pin is the state of some files, by their paths; nil is that of any.
type Pin map[string]string

// NewPin notes the present state of files.
func NewPin(files []string) Pin {
	p := Pin{}
	for _, file := range files {
		p[file] = Stamp(file)
	}
	return p
}

// Unchanged is an error if one of files is not what it was, or is not in p.
func (p Pin) Unchanged(files []string) error {
	if p == nil {
		return nil
	}
	for _, file := range files {
		if was, ok := p[file]; !ok || was != Stamp(file) {
			return fmt.Errorf("%s has changed since this program started, and is not executed", file)
		}
	}
	return nil
}

// Stamp identifies the version of a file by its modification time, size, mode and identity,
// without reading it. It is empty if the file cannot be examined.
func Stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode(), identity(file))
}
