package bash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// jobs are the commands of a run that are, or were, in the background.
type jobs struct {
	mu   sync.Mutex
	list []*command
}

type jobsKey struct{}

func jobsOf(inv *agent.Invocation) *jobs {
	return inv.State(jobsKey{}, func() any { return &jobs{} }).(*jobs)
}

// add adds a command, unless there are too many. One that has ended meanwhile is added too.
func (j *jobs) add(c *command) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running() >= MaxBackground {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended.IsZero() {
		return false
	}
	c.background = true
	j.list = append(j.list, c)
	return true
}

// running counts the commands that run. j.mu is held.
func (j *jobs) running() int {
	n := 0
	for _, c := range j.list {
		c.mu.Lock()
		if c.ended.IsZero() {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

func (j *jobs) find(id string) (*command, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.list {
		if c.id == id {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no command %.100q in the background", id)
}

// String has a line for each command.
func (j *jobs) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.list) == 0 {
		return "There are no commands in the background."
	}
	var b strings.Builder
	for _, c := range j.list {
		c.mu.Lock()
		state := "runs for " + elapsed(time.Since(c.began))
		if !c.ended.IsZero() {
			state = "ended after " + elapsed(c.ended.Sub(c.began)) + ": " + c.state()
		}
		fmt.Fprintf(&b, "%s  %s  (%s)  %s\n", c.id, state, c.file, firstLine(c.text))
		c.mu.Unlock()
	}
	return b.String()
}

func firstLine(text string) string {
	const most = 80
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > most {
		line, more = strings.ToValidUTF8(line[:most], ""), true
	}
	if more {
		line += " …"
	}
	return line
}

// await waits until a command in the background ends, at most so many seconds.
func await(ctx context.Context, inv *agent.Invocation, limit float64) {
	j := jobsOf(inv)
	j.mu.Lock()
	n := j.running()
	j.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limit*float64(time.Second)))
	defer cancel()
	inv.AwaitNotice(ctx)
}

const idArgument = `"id":{"type":"string","description":"the id of the command"}`

func (s *Toolset) more(name, description, properties, required string, effects agent.Effects) *tool {
	schema := `{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`
	return &tool{set: s, spec: agent.ToolSpec{Name: name, Description: description, Schema: json.RawMessage(schema), Source: source, Effects: effects}}
}

func (s *Toolset) list() agent.Tool {
	t := s.more("bash_list", "Lists the commands of bash in the background.", waitArgument[1:], "", agent.EffectsNone)
	t.call = func(ctx context.Context, inv *agent.Invocation, args arguments) (agent.Result, error) {
		if args.Wait > 0 {
			await(ctx, inv, args.Wait)
		}
		return agent.TextResult(jobsOf(inv).String()), nil
	}
	return t
}

func (s *Toolset) read() agent.Tool {
	t := s.more("bash_read", "Returns what a command in the background has printed since it was last read; the first time all of it.", idArgument, `"id"`, agent.EffectsNone)
	t.call = func(_ context.Context, inv *agent.Invocation, args arguments) (agent.Result, error) {
		c, err := jobsOf(inv).find(args.ID)
		if err != nil {
			return agent.Result{}, err
		}
		return c.next()
	}
	return t
}

// next returns what was printed since it was last called.
func (c *command) next() (agent.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := int64(c.set.opts.MaxOutput)
	f, err := os.Open(c.file)
	if err != nil {
		return agent.Result{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return agent.Result{}, err
	}
	begin, note := c.read, ""
	if info.Size()-begin > limit {
		begin = info.Size() - limit
		note = fmt.Sprintf("[%d bytes before this are left out here; all is in the file %s]\n", begin-c.read, c.file)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, begin, info.Size()-begin))
	if err != nil {
		return agent.Result{}, err
	}
	state, over := "runs", !c.ended.IsZero()
	if over {
		state = "has ended: " + c.state()
	} else {
		data = data[:len(data)-incomplete(data)] // the next call has the character whole
	}
	c.read = begin + int64(len(data))
	if note != "" { // the cut may be in a character
		for len(data) > 0 && !utf8.RuneStart(data[0]) {
			data = data[1:]
		}
	}
	if len(data) == 0 {
		return agent.TextResult("[nothing new; the command " + state + "]"), nil
	}
	return agent.TextResult(note + strings.ToValidUTF8(string(data), "\uFFFD") + "\n[the command " + state + "]"), nil
}

// incomplete returns how many bytes at the end of data begin a character of UTF-8 that more bytes
// may complete.
func incomplete(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if end := data[len(data)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (s *Toolset) kill() agent.Tool {
	t := s.more("bash_kill", "Ends a command in the background, with all that it started.", idArgument, `"id"`, agent.EffectsIdempotent)
	t.call = func(ctx context.Context, inv *agent.Invocation, args arguments) (agent.Result, error) {
		c, err := jobsOf(inv).find(args.ID)
		if err != nil {
			return agent.Result{}, err
		}
		c.mu.Lock()
		over := !c.ended.IsZero()
		c.killed = c.killed || !over
		c.mu.Unlock()
		if !over {
			c.cancel(errors.New("killed"))
			<-c.done
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return agent.TextResult(fmt.Sprintf("Command %s has ended: %s.", c.id, c.state())), nil
	}
	return t
}
