package process

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

const separators = `/\:`

// programFiles are the files that a program of this name can be, in the order of PATHEXT: its
// other extensions are those of files that only a shell opens.
func programFiles(file string) []string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".com", ".exe", ".bat", ".cmd":
		return []string{file}
	}
	return []string{file + ".com", file + ".exe", file + ".bat", file + ".cmd", file}
}

// interpret changes what StartProcess executes for path into what Windows can execute: the
// interpreter of a script, and cmd.exe with a command line of its own for a batch file.
func interpret(path string, argv []string, attr *syscall.ProcAttr) (string, []string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(attr.Dir, path)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = checkName(path)
	}
	if err != nil {
		return "", nil, err
	}
	argv = append([]string{path}, argv[1:]...)
	switch strings.ToLower(filepath.Ext(path)) {
	case ".com", ".exe":
		return path, argv, nil
	case ".bat", ".cmd":
		return batch(argv, attr)
	}
	head, err := readHead(path)
	if err != nil {
		return "", nil, err
	}
	words, err := scriptLine(head)
	if words == nil || err != nil {
		return path, argv, err
	}
	if words[0], err = findInterpreter(words[0], attr.Env); err != nil {
		return "", nil, fmt.Errorf("the interpreter of its #! line: %w", err)
	}
	if argv = append(words, argv...); isBatch(words[0]) {
		return batch(argv, attr)
	}
	return words[0], argv, nil
}

// findInterpreter returns the file with the path of a #! line; else, since paths such as
// /bin/sh exist elsewhere only, the program of its last name in the PATH of env.
func findInterpreter(name string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		if file, err := LookPath(name, env); err == nil && isExecutable(file) {
			return file, checkName(file)
		}
	}
	file, err := LookPath(filepath.Base(name), env)
	if err == nil {
		err = checkName(file)
	}
	return file, err
}

// batch lets cmd.exe execute the batch file argv[0].
func batch(argv []string, attr *syscall.ProcAttr) (string, []string, error) {
	dir, err := windows.GetSystemDirectory()
	if err != nil {
		return "", nil, err
	}
	shell := filepath.Join(dir, "cmd.exe")
	attr.Sys.CmdLine, err = batchLine(shell, argv)
	return shell, argv, err
}
