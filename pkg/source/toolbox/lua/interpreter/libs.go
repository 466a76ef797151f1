package interpreter

import (
	"cmp"
	_ "embed" // the prelude
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	golua "github.com/yuin/gopher-lua"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/source/toolbox/lua"
)

//go:embed prelude.lua
var prelude string

// open creates the state of the script with the libraries of Lua. The prelude removes all
// functions that scripts may not use.
func (m *machine) open(tools []any) error {
	l := golua.NewState(golua.Options{SkipOpenLibs: true, CallStackSize: 20_000, MinimizeStackMemory: true,
		RegistrySize: 256, RegistryMaxSize: 1 << 20, RegistryGrowStep: 4096})
	m.state = l
	for _, open := range [...]golua.LGFunction{golua.OpenBase, golua.OpenString, golua.OpenTable, golua.OpenMath, golua.OpenCoroutine, golua.OpenOs} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	create := l.GetField(l.GetGlobal("coroutine"), "create").(*golua.LFunction).GFunction
	host := l.SetFuncs(l.NewTable(), map[string]golua.LGFunction{"call": m.call, "print": m.print, "now": now, "sleep": sleep, "encode": encode, "decode": decode,
		"create": func(l *golua.LState) int { return m.counted(l, create) }})
	host.RawSetString("tools", toLua(l, tools))
	host.RawSetString("most", golua.LNumber(m.max/4)) // bytes of one text
	fn, err := l.Load(strings.NewReader(prelude), "prelude")
	if err != nil {
		return err
	}
	l.Push(fn)
	l.Push(host)
	return l.PCall(1, 0, nil)
}

// counted creates a coroutine whose instructions count.
func (m *machine) counted(l *golua.LState, create golua.LGFunction) int {
	l.CheckFunction(1)
	l.RemoveContext() // or the coroutine has one of its own
	n := create(l)
	l.SetContext(m.meter)
	l.Get(-1).(*golua.LState).SetContext(m.meter)
	return n
}

// call makes calls at the same time and returns their results.
func (m *machine) call(l *golua.LState) int {
	var step lua.Step
	l.CheckTable(1).ForEach(func(_, c golua.LValue) {
		step.Calls = append(step.Calls, lua.Call{Name: l.GetField(c, "name").String(), Args: json.RawMessage(l.GetField(c, "args").String())})
	})
	m.steps <- step
	var results []any
	err := m.in.Decode(&results)
	if err == nil && len(results) != len(step.Calls) {
		err = fmt.Errorf("%d calls have %d results", len(step.Calls), len(results))
	}
	if err != nil {
		l.RaiseError("call a tool: %s", err)
	}
	l.Push(toLua(l, results))
	return 1
}

// print adds text to the output. Beyond maxOutput the rest is omitted, and the output says so.
func (m *machine) print(l *golua.LState) int {
	s := l.CheckString(1)
	if len(m.output) > maxOutput {
		return 0
	}
	m.output = append(m.output, s[:min(len(s), maxOutput-len(m.output))]...)
	if len(m.output) == maxOutput {
		m.output = append(m.output, fmt.Sprintf("\n[the script printed more than %d bytes; the rest is omitted]\n", maxOutput)...)
	}
	return 0
}

func now(l *golua.LState) int {
	l.Push(golua.LNumber(float64(time.Now().UnixMicro()) / 1e6))
	return 1
}

func sleep(l *golua.LState) int {
	time.Sleep(time.Duration(float64(l.CheckNumber(1)) * float64(time.Second)))
	l.Push(golua.LTrue)
	return 1
}

func encode(l *golua.LState) int {
	v, err := toGo(l.CheckAny(1), 0)
	raw, err2 := jsondoc.Encode(v, "")
	if err = cmp.Or(err, err2); err != nil {
		l.RaiseError("json.encode: %s", err)
	}
	l.Push(golua.LString(raw))
	return 1
}

// decode returns nil and an error if the text is not JSON.
func decode(l *golua.LState) int {
	var v any
	if err := json.Unmarshal([]byte(l.CheckString(1)), &v); err != nil {
		l.Push(golua.LNil)
		l.Push(golua.LString(err.Error()))
		return 2
	}
	l.Push(toLua(l, v))
	return 1
}

// toLua converts a JSON value to a Lua value. null becomes nil, so a key with null is missing.
func toLua(l *golua.LState, v any) golua.LValue {
	switch v := v.(type) {
	case bool:
		return golua.LBool(v)
	case float64:
		return golua.LNumber(v)
	case string:
		return golua.LString(v)
	case []any:
		t := l.NewTable()
		for i, e := range v {
			t.RawSetInt(i+1, toLua(l, e))
		}
		return t
	case map[string]any:
		t := l.NewTable()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			t.RawSetString(k, toLua(l, v[k]))
		}
		return t
	}
	return golua.LNil
}

// toGo converts a Lua value to a JSON value. An empty table, or one whose keys are 1 to n,
// becomes an array.
func toGo(v golua.LValue, depth int) (any, error) {
	switch v := v.(type) {
	case *golua.LNilType:
		return nil, nil
	case golua.LBool:
		return bool(v), nil
	case golua.LNumber:
		return float64(v), nil
	case *golua.LTable:
		if depth > maxDepth {
			return nil, fmt.Errorf("the tables are nested more than %d deep", maxDepth)
		}
		values := map[string]any{}
		var err error
		v.ForEach(func(k, e golua.LValue) {
			if err == nil {
				values[k.String()], err = toGo(e, depth+1)
			}
		})
		if err != nil || len(values) > v.Len() {
			return values, err
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = values[strconv.Itoa(i+1)]
		}
		return list, nil
	}
	return v.String(), nil // a function, too, has a name
}
