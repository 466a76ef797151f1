package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/leaf/filemode"
)

// A StartError says that a program was not started, and why.
type StartError struct {
	Path string // Command.Path
	Err  error  // the cause: mostly a syscall.Errno, or that of the context
	Why  string // what is behind Err, in words; may be empty
}

// Error returns "start tools/x.sh: exec format error: the file has no #! line".
func (e *StartError) Error() string {
	if e.Why == "" {
		return fmt.Sprintf("start %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("start %s: %v: %s", e.Path, e.Err, e.Why)
}

// Unwrap returns Err, so that errors.Is finds fs.ErrNotExist or syscall.E2BIG.
func (e *StartError) Unwrap() error { return e.Err }

func newStartError(c *Command, err error) *StartError {
	return &StartError{Path: c.Path, Err: err, Why: why(c, err)}
}

func why(c *Command, err error) string {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "the limit of open files (ulimit -n) is reached"
	}
	if c.Dir != "" {
		if st, err := os.Stat(c.Dir); errors.Is(err, os.ErrNotExist) {
			return fmt.Sprintf("its working directory %s does not exist", c.Dir)
		} else if err != nil {
			return "its working directory: " + err.Error()
		} else if !st.IsDir() {
			return fmt.Sprintf("its working directory %s is not a directory", c.Dir)
		}
	}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC):
		return whyFile(c, err)
	case errors.Is(err, syscall.E2BIG):
		return whyTooLong(c)
	case errors.Is(err, syscall.EINVAL):
		return whyInvalid(c)
	case errors.Is(err, syscall.ETXTBSY):
		return "the file is open for writing"
	case errors.Is(err, syscall.EAGAIN):
		return "the limit of processes (ulimit -u) is reached"
	}
	return ""
}

// whyFile looks at the file itself.
func whyFile(c *Command, err error) string {
	path := c.Path
	if c.Dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	st, statErr := os.Stat(path)
	switch {
	case errors.Is(statErr, os.ErrNotExist):
		return "" // Err says it
	case statErr != nil:
		return statErr.Error()
	case st.IsDir():
		return "it is a directory"
	case !st.Mode().IsRegular():
		return "it is not a regular file"
	case filemode.Of(path, st)&0o111 == 0:
		return "the file is not executable (chmod +x)"
	case st.Size() == 0:
		return "the file is empty"
	}
	head, readErr := readHead(path)
	if readErr != nil {
		return ""
	}
	script := bytes.HasPrefix(head, []byte("#!"))
	switch {
	case script:
		return whyScript(head)
	case bytes.HasPrefix(head, []byte("\x7fELF")) && errors.Is(err, syscall.ENOENT):
		return "the program's loader does not exist here (it was built for another system)"
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return "the program was built for another processor or system, or is damaged"
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf#!")):
		return "a byte order mark stands before the #! line"
	case errors.Is(err, syscall.ENOEXEC):
		return "the file has no #! line"
	}
	return ""
}

// whyScript looks at the interpreter that the head of a script names.
func whyScript(head []byte) string {
	line, _, _ := strings.Cut(string(head[2:]), "\n")
	interpreter, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	switch st, err := os.Stat(interpreter); {
	case strings.HasSuffix(line, "\r"):
		return "the #! line ends in a carriage return (Windows line ends)"
	case interpreter == "":
		return "the #! line names no interpreter"
	case errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("the interpreter of its #! line, %s, does not exist", interpreter)
	case err != nil:
		return fmt.Sprintf("the interpreter of its #! line: %v", err)
	case st.IsDir() || filemode.Of(interpreter, st)&0o111 == 0:
		return fmt.Sprintf("the interpreter of its #! line, %s, is not executable", interpreter)
	}
	return ""
}

const headBytes = 256

// readHead returns the beginning of a file: what Linux looks at for a #! line.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headBytes))
}

// whyTooLong counts what the system found too long.
func whyTooLong(c *Command) string {
	total, longest, where := 0, 0, ""
	count := func(n int, name string) {
		if total += n + 1; n > longest {
			longest, where = n, name
		}
	}
	for i, arg := range c.Args {
		count(len(arg), fmt.Sprintf("argument %d", i+1))
	}
	for _, kv := range c.environ() {
		name, _, _ := strings.Cut(kv, "=")
		count(len(kv), "the environment variable "+name)
	}
	return fmt.Sprintf("arguments and environment have %d bytes, the longest is %s with %d", total, where, longest)
}

// whyInvalid looks for what no argument and no variable can hold.
func whyInvalid(c *Command) string {
	if strings.ContainsRune(c.Path, 0) {
		return "its path holds a NUL byte"
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Sprintf("argument %d holds a NUL byte", i+1)
		}
	}
	for _, kv := range c.environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.ContainsRune(kv, 0) {
			return fmt.Sprintf("the environment variable %q holds a NUL byte", name)
		}
	}
	return ""
}
