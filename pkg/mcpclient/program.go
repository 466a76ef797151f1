package mcpclient

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// scripts are the endings of files that interpreters execute.
var scripts = []string{".cjs", ".jar", ".js", ".mjs", ".php", ".pl", ".py", ".rb", ".sh", ".ts"}

// Programs are the files that the start of s executes, as far as its configuration
// names them: its program, and the scripts and programs among its arguments. What
// these load is not among them.
func (s *Server) Programs() []string {
	if s.Executable == "" {
		return nil
	}
	absolute := func(file string) string {
		if filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(s.Dir, file)
	}
	var files []string
	if file, err := lookPath(s); err == nil {
		files = append(files, absolute(file))
	}
	for _, arg := range s.Args {
		file := absolute(arg)
		info, err := os.Stat(file)
		program := err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		if program || slices.Contains(scripts, strings.ToLower(filepath.Ext(arg))) {
			files = append(files, file)
		}
	}
	return files
}

// pin notes the state of the programs of s.server, for unchanged.
func (s *Toolset) pin() {
	s.pinned = map[string]string{}
	for _, file := range s.server.Programs() {
		s.pinned[file] = stamp(file)
	}
}

// unchanged is an error if a program of s.server is not what it was at Open.
func (s *Toolset) unchanged() error {
	if s.pinned == nil {
		return nil
	}
	for _, file := range s.server.Programs() {
		if was, ok := s.pinned[file]; !ok || was != stamp(file) {
			return fmt.Errorf("%s has changed since this program started, and is not executed", file)
		}
	}
	return nil
}

// stamp is a text that changes with the contents of a file; it is empty for one that
// does not exist.
func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
}
