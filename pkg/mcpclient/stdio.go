package mcpclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/agents-exe/agents/pkg/process"
)

// A child is the running program of a server, in a process group of its own.
type child struct {
	proc   *process.Process
	in     *queue
	out    *lineFilter
	stderr *lastLines
}

// startChild starts the program of server.
func startChild(server *Server, opts *Options) (*child, error) {
	file, err := lookPath(server)
	if err != nil {
		return nil, err
	}
	mark := rand.Text
	if opts.NewMark != nil {
		mark = opts.NewMark
	}
	c := &child{stderr: &lastLines{log: opts.log}}
	c.proc, err = process.Start(&process.Command{
		Path: file, Args: server.Args, Env: server.Env, Dir: server.Dir,
		Stderr: c.stderr, Mark: "mcp-" + mark(), Grace: opts.Grace,
	})
	if err != nil {
		return nil, err
	}
	c.in = newQueue(c.proc.Stdin, maxQueue)
	c.out = newLineFilter(c.proc.Stdout, opts.lineLimit(), opts.log)
	return c, nil
}

// transport is the library's view of the child.
func (c *child) transport() *transport.Stdio {
	t := transport.NewIO(c.out, c.in, nil)
	transport.WithCommandLogger(silent())(t)
	return t
}

// flushWait is how long a program may take to read what it was sent last.
const flushWait = 500 * time.Millisecond

// end ends the program: end of input, SIGTERM, SIGKILL, the last two to the
// whole group. When ctx ends, the waits between them are skipped.
func (c *child) end(ctx context.Context) (process.Exit, error) {
	c.in.Close()
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select { // what is pending, a cancellation above all, still goes out
	case <-c.in.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	exit, err := c.proc.Close(ctx)
	<-c.in.done
	c.stderr.flush()
	return exit, err
}

// lookPath is the file of server's program.
func lookPath(server *Server) (string, error) {
	name := server.Executable
	if strings.Contains(name, "/") {
		return name, nil
	}
	var list string
	for _, kv := range server.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	for _, dir := range filepath.SplitList(list) {
		// A relative folder would depend on where the program is started.
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		st, err := os.Stat(file)
		if err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	if list == "" {
		return "", fmt.Errorf("start %s: its environment has no PATH to look in: %w", name, fs.ErrNotExist)
	}
	return "", fmt.Errorf("start %s: it is in none of the folders of PATH (%s): %w", name, list, fs.ErrNotExist)
}

// said is "" or a clause with what the program has written besides messages.
func (c *child) said() string {
	text := c.stderr.String()
	if line := c.out.firstDropped(); line != "" {
		text = "; its stdout has lines that are no messages, such as\n  " + line + text
	}
	return text
}
