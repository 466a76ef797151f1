package mcpclient

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/process"
)

// A stdio is the transport to a program, in a process group of its own, that reads and
// writes one message a line.
type stdio struct {
	conn   *conn
	proc   *process.Process
	in     *queue
	stderr *lastLines
	read   chan struct{} // closed when the output was read to its end

	mu      sync.Mutex
	dropped string // the first line that is not a message
}

func (c *conn) startProgram(ctx context.Context) error {
	file, err := process.LookPath(c.server.Executable, c.server.Env)
	if err != nil {
		return err
	}
	s := &stdio{conn: c, stderr: &lastLines{log: c.opts.log}, read: make(chan struct{})}
	cmd := &process.Command{
		Path: file, Args: c.server.Args, Env: c.server.Env, Dir: c.server.Dir,
		Stderr: s.stderr, Mark: "mcp-" + rand.Text(), Grace: c.opts.Grace, Sandbox: c.server.Sandbox,
	}
	cmd.EndContainer()
	s.proc, err = process.Start(cmd)
	if err != nil {
		return err
	}
	s.in = newQueue(s.proc.Stdin, maxQueue)
	c.open(ctx, s)
	go s.readAll(s.proc.Stdout)
	return nil
}

// readAll reads what the program writes. The end of its output is the end of the
// connection; the answers before it are handed on first.
func (s *stdio) readAll(out io.Reader) {
	defer close(s.read)
	defer s.conn.lose()
	from := bufio.NewReaderSize(out, 64<<10)
	for {
		l, err := jsonrpc.ReadLine(from, s.conn.opts.lineLimit())
		s.take(l)
		if err != nil {
			return
		}
	}
}

// take handles a line: a message, an array of them, which 2025-03-26 has, or something
// else, which is logged.
func (s *stdio) take(l jsonrpc.Line) {
	l.Text = bytes.TrimSpace(bytes.TrimPrefix(l.Text, []byte("\uFEFF"))) // a byte order mark, which some systems write first
	var batch []json.RawMessage
	switch {
	case l.TooLong, isMessage(l.Text):
		s.message(l)
	case bytes.HasPrefix(l.Text, []byte("[")) && bytes.Contains(l.Text, []byte(`"jsonrpc"`)) && json.Unmarshal(l.Text, &batch) == nil:
		for _, text := range batch {
			s.take(jsonrpc.Line{Text: text})
		}
	case len(l.Text) > 0:
		s.drop(string(l.Text))
	}
}

// message handles a message. An answer to no request may be to one that has ended.
func (s *stdio) message(l jsonrpc.Line) {
	m, err := parse(l, s.conn.opts.lineLimit())
	if err != nil && !l.TooLong {
		s.drop(string(l.Text))
	}
	if !s.conn.received(context.Background(), nil, m, err) && err != nil {
		s.drop(err.Error())
	}
}

// drop logs what is not a message.
func (s *stdio) drop(line string) {
	line = clip(line, maxLogLine)
	s.mu.Lock()
	s.dropped = cmp.Or(s.dropped, line)
	s.mu.Unlock()
	s.conn.opts.log("stdout: " + line)
}

func (s *stdio) send(_ context.Context, q *request) {
	if _, err := s.in.Write(q.line); err != nil {
		s.conn.answered(q.key, nil, err)
	}
}

func (s *stdio) post(_ context.Context, line []byte) error {
	_, err := s.in.Write(line)
	return err
}

// flushWait is how long a program may take to read what it was sent last.
const flushWait = 500 * time.Millisecond

// end implements transport. It ends the program: end of input, SIGTERM, SIGKILL, the
// last two to the whole group.
func (s *stdio) end(ctx context.Context, closed bool) error {
	s.in.Close()
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select { // what is pending, a cancellation above all, still goes out
	case <-s.in.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	exit, err := s.proc.Close(ctx)
	<-s.in.done
	<-s.read
	s.stderr.flush()
	how := exit.String()
	switch {
	case closed:
		return errors.New("the server was closed")
	case err != nil:
		how = err.Error()
	case exit.Cancelled:
		how = "it closed its standard output"
	}
	said := s.said()
	if box := s.conn.server.Sandbox; box != nil {
		for _, line := range append(box.Refused(said), exit.Refused) {
			if line != "" {
				said += "\n" + line
			}
		}
	}
	return &endError{how: how, said: said}
}

// said is "" or a clause with what the program has written apart from messages.
func (s *stdio) said() string {
	s.mu.Lock()
	line := s.dropped
	s.mu.Unlock()
	text := s.stderr.String()
	if line != "" {
		text = "; its stdout has lines that are not messages, such as\n  " + line + text
	}
	return text
}

// Programs are the files that the start of s executes, as far as its configuration
// names them; see process.Programs.
func (s *Server) Programs() []string {
	if s.Executable == "" {
		return nil
	}
	return append(process.Programs(append([]string{s.Executable}, s.Args...), s.Env, s.Dir), s.Files...)
}

const (
	// maxLastLines is how many lines of stderr an error shows. The message of
	// Node.js about an uncaught error has up to 18, and says why near its top.
	maxLastLines = 20
	// maxLogLine is how many bytes of a line are kept.
	maxLogLine = 1000
)

// lastLines is an io.Writer that keeps the last lines of what is written and
// passes each to log.
type lastLines struct {
	log func(line string)

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write implements io.Writer. It never fails.
func (l *lastLines) Write(p []byte) (int, error) {
	n := len(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		if room := maxLogLine + utf8.UTFMax - len(l.partial); room > 0 {
			l.partial = append(l.partial, line[:min(room, len(line))]...)
		}
		if !found {
			return n, nil
		}
		l.end()
		p = rest
	}
}

func (l *lastLines) end() {
	line := clip(strings.TrimRight(string(l.partial), "\r"), maxLogLine)
	l.partial = l.partial[:0]
	if strings.TrimSpace(line) == "" {
		return
	}
	if len(l.lines) == maxLastLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
	l.log(line)
}

// flush ends a line that has no newline.
func (l *lastLines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// String is "" or a clause with the last lines, for the end of an error.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return ""
	}
	return "; the last lines of its stderr:\n  " + strings.Join(l.lines, "\n  ")
}

// clip cuts s to at most max bytes of valid UTF-8.
func clip(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}

// maxQueue is how much may wait for a program that does not read.
const maxQueue = 4 * MaxLine

// A queue writes to a pipe in the background: a program that does not read must not
// block a call beyond its time.
type queue struct {
	to   io.WriteCloser
	max  int           // how much may wait
	done chan struct{} // closed when everything is written and to is closed

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	closed  bool
}

// newQueue starts a queue; Close ends it.
func newQueue(to io.WriteCloser, max int) *queue {
	q := &queue{to: to, max: max, done: make(chan struct{})}
	q.changed.L = &q.mu
	go q.run()
	return q
}

// Write takes p for later.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, io.ErrClosedPipe
	}
	if len(q.pending)+len(p) > q.max {
		return 0, fmt.Errorf("the server does not read what it is sent; %d bytes are waiting", len(q.pending))
	}
	q.pending = append(q.pending, p...)
	q.changed.Signal()
	return len(p), nil
}

// Close ends the queue behind what is pending, without waiting for it.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Signal()
	return nil
}

// run writes what is pending, until the queue is closed or a write fails. The reason of
// a failure, that the program has ended, shows at the end of its output.
func (q *queue) run() {
	defer close(q.done)
	defer q.to.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.pending) == 0 && !q.closed {
			q.changed.Wait()
		}
		if len(q.pending) == 0 {
			return
		}
		batch := q.pending
		q.pending = nil
		q.mu.Unlock()
		_, err := q.to.Write(batch)
		q.mu.Lock()
		if err != nil {
			q.closed, q.pending = true, nil
		}
	}
}
