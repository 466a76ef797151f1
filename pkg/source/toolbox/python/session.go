package python

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
)

// A session is what a run keeps. Cells take turns.
type session struct {
	turn        chan struct{}
	interpreter *interpreter // nil before the first cell
	alone       bool         // no run ends it
	cells       int
}

// An interpreter is a process that runs cells.
type interpreter struct {
	process *process.Process
	from    *io.LimitedReader // of replies: maxReplies for each cell
	replies *json.Decoder
	output  *output
}

// A reply reports the end of a cell.
type reply struct {
	ID        int    `json:"id"`
	Value     string `json:"value"`
	Error     string `json:"error"`
	Traceback string `json:"traceback"`
}

func (in *interpreter) over() bool {
	select {
	case <-in.process.Done():
		return true
	default:
		return false
	}
}

// maxReplies is how many bytes an interpreter may write for one cell: the driver writes at most a
// million characters of a value and of a traceback each, of up to 12 bytes.
const maxReplies = 32 << 20

// startTime is how long Python may take to start. It is not a part of the time of a cell.
const startTime = time.Minute

// ready waits until the process has started, and ends it if that fails.
func (in *interpreter) ready(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, startTime, errors.New("python3 did not start within "+seconds(startTime)))
	defer stop()
	began := make(chan error, 1)
	go func() { began <- in.replies.Decode(&reply{}) }()
	select {
	case err := <-began:
		if err == nil {
			return nil
		}
		in.close()
		exit, _ := in.process.Wait() // as in failure
		out := in.output.take()
		defer out.Close()
		return fmt.Errorf("start python3: %s\n%s", exit, out.Excerpt())
	case <-ctx.Done():
		in.close()
		<-began
		return agent.ContextError(ctx)
	}
}

func (in *interpreter) close() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	in.process.Close(now)
}

// run runs a cell and returns what it printed with its value or traceback.
func (in *interpreter) run(ctx context.Context, t *tool, id int, cell string) (string, error) {
	limited, stop := context.WithTimeoutCause(ctx, t.opts.Timeout, fmt.Errorf("timed out after %s (timeoutSeconds)", seconds(t.opts.Timeout)))
	defer stop()
	mark := "\x00" + rand.Text() + "\n"
	printed := in.output.expect(mark)
	done := make(chan *reply, 1)
	go func() { done <- in.exchange(id, cell, mark, printed) }()
	var r *reply
	var late error
	select {
	case r = <-done:
	case <-limited.Done():
		late = agent.ContextError(limited)
		r = in.interrupt(t.opts.Grace, id, done)
	}
	if r == nil {
		in.end(t.opts.Grace)
	}
	out := in.output.take()
	defer out.Close()
	if r != nil {
		r.Error = t.opts.Redact.String(r.Error)
	}
	err := in.failure(r, late)
	if r != nil {
		for _, text := range []string{r.Value, r.Traceback} {
			if out.Total() > 0 && text != "" && !strings.HasSuffix(out.Tail(1), "\n") {
				text = "\n" + text
			}
			if _, err := io.WriteString(out, t.opts.Redact.String(text)); err != nil {
				return "", err
			}
		}
	}
	limit := t.opts.MaxOutput
	if err != nil {
		limit = max(0, limit-len(err.Error()))
	}
	return out.Text(limit, "the output"), err
}

// end waits until all that the process printed has been read. There are no more replies, so
// it has ended, or is about to; if it goes on without them, as after os.execvp, it is killed.
func (in *interpreter) end(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-in.process.Done():
	case <-timer.C:
		in.close()
	}
	_, _ = in.process.Wait()
}

// exchange sends a cell and returns the reply, nil if the process ends first or writes
// something else.
func (in *interpreter) exchange(id int, cell, mark string, printed <-chan struct{}) *reply {
	in.from.N = maxReplies
	if in.send(map[string]any{"id": id, "cell": cell, "mark": mark}) != nil {
		return nil
	}
	for {
		var r reply
		if in.replies.Decode(&r) != nil {
			return nil
		}
		if r.ID != id {
			continue
		}
		select {
		case <-printed:
		case <-in.process.Done():
		}
		return &r
	}
}

func (in *interpreter) send(command map[string]any) error {
	return json.NewEncoder(in.process.Stdin).Encode(command)
}

// interrupt interrupts a cell, and ends the process if the cell does not end.
func (in *interpreter) interrupt(grace time.Duration, id int, done <-chan *reply) *reply {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	sent := make(chan error, 1) // a process that does not read must not hold the call
	go func() { sent <- in.send(map[string]any{"interrupt": id}) }()
	defer func() { <-sent }()
	select {
	case r := <-done:
		return r
	case <-timer.C:
	}
	in.close()
	<-done
	return nil
}

// failure is why a cell failed; late is why it was interrupted.
func (in *interpreter) failure(r *reply, late error) error {
	switch {
	case r == nil && late != nil:
		return fmt.Errorf("%w; the cell ignored the interrupt, so Python was killed; the next cell begins a new session", late)
	case r == nil:
		exit, _ := in.process.Wait() // what cannot be killed has no reply either
		return fmt.Errorf("%w (%s)", errEnded, exit)
	case late != nil:
		return fmt.Errorf("%w; the cell was interrupted; the session keeps its state", late)
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// output takes in what the process prints: up to a mark it is that of a cell. What is
// printed between cells belongs to the next.
type output struct {
	redacted io.Writer // to it, without secrets
	open     func() *spool.Output

	mu   sync.Mutex
	out  *spool.Output // of the cell, or of the next one
	next *spool.Output // what follows the mark
	mark []byte        // nil once it was seen
	held []byte        // what may be the beginning of the mark
	seen chan struct{}
}

func (t *tool) newOutput(key string) *output {
	o := &output{open: func() *spool.Output {
		return &spool.Output{Dir: t.opts.SpoolDir, Pattern: toolname.Join("", key) + "-*.output"}
	}}
	o.out = o.open()
	o.redacted = t.opts.Redact.Writer(o)
	return o
}

// expect begins a cell whose output ends with mark. The channel is closed then.
func (o *output) expect(mark string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mark, o.seen = []byte(mark), make(chan struct{})
	return o.seen
}

func (o *output) take() *spool.Output {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.out
	if _, err := out.Write(o.held); err != nil {
		return out // it never fails
	}
	o.out, o.next, o.held, o.mark = o.next, nil, nil, nil
	if o.out == nil {
		o.out = o.open()
	}
	return out
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if o.mark == nil {
		if o.next != nil {
			return o.next.Write(p)
		}
		return o.out.Write(p)
	}
	p = append(o.held, p...)
	if before, after, found := bytes.Cut(p, o.mark); found {
		o.held, o.mark, o.next = nil, nil, o.open()
		close(o.seen)
		if _, err := o.out.Write(before); err != nil {
			return n, err
		}
		_, err := o.next.Write(after)
		return n, err
	}
	keep := min(len(p), len(o.mark)-1)
	for keep > 0 && !bytes.HasPrefix(o.mark, p[len(p)-keep:]) {
		keep--
	}
	o.held = bytes.Clone(p[len(p)-keep:])
	_, err := o.out.Write(p[:len(p)-keep])
	return n, err
}
