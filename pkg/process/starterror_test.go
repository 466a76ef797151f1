//go:build linux

package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestStartErrorSaysWhy(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := file("ok.sh", "#!/bin/sh\n", 0o755)
	tests := []struct {
		name  string
		c     Command
		cause error
		want  string // DIR stands for the folder
	}{
		{"missing", Command{Path: dir + "/none"}, fs.ErrNotExist,
			"start DIR/none: no such file or directory"},
		{"not searched in PATH", Command{Path: "sh"}, fs.ErrNotExist,
			"start sh: no such file or directory"},
		{"not executable", Command{Path: file("plain.sh", "#!/bin/sh\n", 0o644)}, fs.ErrPermission,
			"start DIR/plain.sh: permission denied: the file is not executable (chmod +x)"},
		{"directory", Command{Path: dir}, fs.ErrPermission,
			"start DIR: permission denied: it is a directory"},
		{"device", Command{Path: os.DevNull}, fs.ErrPermission,
			"start /dev/null: permission denied: it is not a regular file"},
		{"empty", Command{Path: file("empty.sh", "", 0o755)}, syscall.ENOEXEC,
			"start DIR/empty.sh: exec format error: the file is empty"},
		{"no #! line", Command{Path: file("bare.sh", "echo hi\n", 0o755)}, syscall.ENOEXEC,
			"start DIR/bare.sh: exec format error: the file has no #! line"},
		{"byte order mark", Command{Path: file("bom.sh", "\ufeff#!/bin/sh\n", 0o755)}, syscall.ENOEXEC,
			"start DIR/bom.sh: exec format error: a byte order mark stands before the #! line"},
		{"no interpreter", Command{Path: file("none.sh", "#! /no/such/shell -x\n", 0o755)}, fs.ErrNotExist,
			"start DIR/none.sh: no such file or directory: the interpreter of its #! line, /no/such/shell, does not exist"},
		{"interpreter is a folder", Command{Path: file("folder.sh", "#!/etc\n", 0o755)}, fs.ErrPermission,
			"start DIR/folder.sh: permission denied: the interpreter of its #! line, /etc, is not executable"},
		{"empty #! line", Command{Path: file("hash.sh", "#!\n", 0o755)}, syscall.ENOEXEC,
			"start DIR/hash.sh: exec format error: the #! line names no interpreter"},
		{"Windows line ends", Command{Path: file("dos.sh", "#!/bin/sh\r\necho\r\n", 0o755)}, fs.ErrNotExist,
			"start DIR/dos.sh: no such file or directory: the #! line ends in a carriage return (Windows line ends)"},
		{"foreign program", Command{Path: file("elf", "\x7fELF\x01\x02"+strings.Repeat("\x00", 60), 0o755)}, syscall.ENOEXEC,
			"start DIR/elf: exec format error: the program was built for another processor or system, or is damaged"},
		{"long argument", Command{Path: script, Args: []string{"a", strings.Repeat("x", 200_000)}, Env: []string{"A=1"}}, syscall.E2BIG,
			"start DIR/ok.sh: argument list too long: arguments and environment have 200007 bytes, the longest is argument 2 with 200000"},
		{"long variable", Command{Path: script, Env: []string{"BIG=" + strings.Repeat("x", 200_000)}}, syscall.E2BIG,
			"start DIR/ok.sh: argument list too long: arguments and environment have 200005 bytes, the longest is the environment variable BIG with 200004"},
		{"NUL in an argument", Command{Path: script, Args: []string{"a\x00b"}}, syscall.EINVAL,
			"start DIR/ok.sh: invalid argument: argument 1 holds a NUL byte"},
		{"NUL in a variable", Command{Path: script, Env: []string{"A=\x00"}}, syscall.EINVAL,
			`start DIR/ok.sh: invalid argument: the environment variable "A" holds a NUL byte`},
		{"NUL in the path", Command{Path: "a\x00b"}, syscall.EINVAL,
			"start a\x00b: invalid argument: its path holds a NUL byte"},
		{"no working directory", Command{Path: script, Dir: dir + "/gone"}, fs.ErrNotExist,
			"start DIR/ok.sh: no such file or directory: its working directory DIR/gone does not exist"},
		{"working directory is a file", Command{Path: script, Dir: script}, syscall.ENOTDIR,
			"start DIR/ok.sh: not a directory: its working directory DIR/ok.sh is not a directory"},
	}
	before := openDescriptors(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := Run(t.Context(), &test.c)
			var startErr *StartError
			if !errors.As(err, &startErr) || !errors.Is(err, test.cause) {
				t.Fatalf("Run = %v, want a StartError with %v", err, test.cause)
			}
			if want := strings.ReplaceAll(test.want, "DIR", dir); err.Error() != want {
				t.Errorf("Run: %s\nwant %s", err, want)
			}
			if e.Code != -1 {
				t.Errorf("Exit is %#v, want code -1", e)
			}
		})
	}
	if after := openDescriptors(t); len(after) != len(before) {
		t.Errorf("open descriptors before %v, after %v", before, after)
	}
}

func TestFileThatIsWrittenForAMomentIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.sh")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\nexit 9\n"); err != nil {
		t.Fatal(err)
	}
	want := "start " + path + ": text file busy: the file is open for writing"
	if _, err := Run(t.Context(), &Command{Path: path}); err == nil || err.Error() != want {
		t.Errorf("Run of an open file: %v, want %s", err, want)
	}
	f.Close()
	if e := mustRun(t, t.Context(), &Command{Path: path}); e.Code != 9 {
		t.Errorf("Run = %#v, want exit status 9", e)
	}
}
