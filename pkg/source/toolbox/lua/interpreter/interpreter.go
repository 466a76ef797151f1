// Package interpreter runs Lua scripts for package lua. A script can only compute: all other
// functions of Lua are removed, and a call of a tool is a line sent to the caller.
//
// Each script needs a process of its own, because a script that needs too much memory cannot
// be stopped within the process: Run returns while it still runs, or the system ends the
// process. The caller limits the time.
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
	"time"

	golua "github.com/yuin/gopher-lua"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
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
	steps  chan lua.Step
	output []byte
}

// Run reads a script from in and runs it: see package lua. It limits the whole process.
// When it returns, the script may still run, so the process must exit.
func Run(ctx context.Context, limits lua.Limits, in io.Reader, out io.Writer) error {
	limits = limits.WithDefaults()
	m := &machine{max: uint64(limits.MemoryMB) << 20, in: json.NewDecoder(in), steps: make(chan lua.Step), meter: newMeter(limits.Instructions)}
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(int64(m.max))
	if err := limitData(m.max + goData); err != nil {
		return fmt.Errorf("limit the memory of the script: %w", err)
	}
	var start lua.Start
	if err := m.in.Decode(&start); err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	go func() { m.steps <- m.run(start) }()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for {
		var step lua.Step
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if inUse() <= m.max {
				continue
			}
			if runtime.GC(); inUse() <= m.max { // it was garbage
				continue
			}
			step.Error = limits.ErrMemory().Error()
		case step = <-m.steps:
		}
		if err := lines.Encode(step); err != nil || len(step.Calls) == 0 {
			return err
		}
	}
}

func inUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}

func (m *machine) run(start lua.Start) (last lua.Step) {
	err := m.open(start.Tools)
	if err == nil {
		m.state.SetContext(m.meter)
		last.Values, err = m.values(start.Script)
	}
	if err != nil {
		last.Values, last.Error = nil, errorText(err)
	}
	last.Output = string(m.output)
	return last
}

// values runs a script and returns the JSON array of what it returns.
func (m *machine) values(script string) ([]byte, error) {
	l := m.state
	fn, err := l.Load(strings.NewReader(script), "script")
	if err == nil {
		l.Push(fn)
		err = l.PCall(0, golua.MultRet, nil)
	}
	values := make([]any, l.GetTop())
	for i := range values {
		if err == nil {
			values[i], err = toGo(l.Get(i+1), 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return jsondoc.Encode(values, "")
}

func errorText(err error) string {
	e, ok := errors.AsType[*golua.ApiError](err)
	switch {
	case !ok:
		return err.Error()
	case e.Cause != nil:
		return e.Cause.Error()
	case e.Object.Type() != golua.LTTable:
		return e.Object.String()
	}
	value, err := toGo(e.Object, 0)
	raw, err2 := jsondoc.Encode(value, "")
	if err != nil || err2 != nil {
		return "the script failed with an error that is not a string"
	}
	return string(raw)
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
	return fmt.Errorf("the script executed more than %d instructions (maxInstructions)", m.max)
}
