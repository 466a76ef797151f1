// Package interpreter runs a script in Lua, for package lua. A script can only compute:
// what else there is in Lua is left out, and each call of a tool is a line to the caller.
//
// Each script needs a process of its own. One that needs too much memory is not ended in
// this process: Run returns, or the system ends the process. The time is the caller's.
package interpreter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/toolbox/lua"
	golua "github.com/yuin/gopher-lua"
)

const (
	maxOutput  = 1_000_000            // bytes that a script may print
	maxDepth   = 100                  // levels of tables in a JSON text
	maxStack   = 64 << 20             // bytes of the stack of Go, on which parsing a script recurses
	checkEvery = 2 * time.Millisecond // between two looks at the memory in use
	goData     = 128 << 20            // bytes that Go may map beside the memory of the script
)

// A machine is one script.
type machine struct {
	max    uint64 // bytes of memory
	state  *golua.LState
	meter  *meter
	in     *json.Decoder
	output []byte

	mu     sync.Mutex
	out    *json.Encoder
	closed bool // the last line is written
}

// Run reads a script from in and runs it: see package lua. It limits the whole process.
// When it returns, the script may still run, so the process must exit.
func Run(ctx context.Context, limits lua.Limits, in io.Reader, out io.Writer) error {
	limits = limits.WithDefaults()
	m := &machine{max: uint64(limits.MemoryMB) << 20, meter: newMeter(limits.Instructions), in: json.NewDecoder(in), out: json.NewEncoder(out)}
	m.out.SetEscapeHTML(false)
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(int64(m.max))
	if err := limitData(m.max + goData); err != nil {
		return fmt.Errorf("limit the memory of the script: %w", err)
	}
	var start lua.Start
	if err := m.in.Decode(&start); err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	done := make(chan lua.Step, 1)
	go func() { done <- m.run(start) }()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case last := <-done:
			return m.send(last, true)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if m.tooLarge() {
				return m.send(lua.Step{Error: limits.ErrMemory().Error()}, true)
			}
		}
	}
}

func (m *machine) send(s lua.Step, last bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("the script has ended")
	}
	m.closed = last
	return m.out.Encode(s)
}

// tooLarge reports whether the script uses more memory than it may.
func (m *machine) tooLarge() bool {
	if inUse() <= m.max {
		return false
	}
	runtime.GC() // what is in use includes garbage
	return inUse() > m.max
}

func inUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

// run runs a script and returns its last step.
func (m *machine) run(start lua.Start) lua.Step {
	values := []any{}
	err := m.open(start.Tools)
	if err == nil {
		values, err = m.values(start.Script)
	}
	last := lua.Step{Output: string(m.output)}
	if err == nil {
		last.Values, err = marshal(values)
	}
	if err != nil {
		last.Error = errorText(err)
	}
	return last
}

// values runs a script and returns what it returns.
func (m *machine) values(script string) ([]any, error) {
	l := m.state
	fn, err := l.Load(strings.NewReader(script), "script")
	if err != nil {
		return nil, err
	}
	l.SetContext(m.meter)
	l.Push(fn)
	if err := l.PCall(0, golua.MultRet, nil); err != nil {
		return nil, err
	}
	values := make([]any, l.GetTop())
	for i := range values {
		if values[i], err = toGo(l.Get(i+1), 0); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// errorText is what the model reads of the error of a script.
func errorText(err error) string {
	var e *golua.ApiError
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Cause != nil {
		return e.Cause.Error()
	}
	if t, ok := e.Object.(*golua.LTable); ok {
		if v, err := toGo(t, 0); err == nil {
			if raw, err := marshal(v); err == nil {
				return string(raw)
			}
		}
	}
	return e.Object.String()
}

// A meter counts the instructions of a script: the interpreter asks for Done before each.
type meter struct {
	context.Context
	left, max int64
	over      chan struct{}
}

func newMeter(max int64) *meter {
	m := &meter{context.Background(), max, max, make(chan struct{})}
	close(m.over)
	return m
}

// Done implements context.Context.
func (m *meter) Done() <-chan struct{} {
	if m.left--; m.left >= 0 {
		return nil
	}
	return m.over
}

// Err implements context.Context.
func (m *meter) Err() error {
	return fmt.Errorf("the script ran more than %d instructions (maxInstructions)", m.max)
}
