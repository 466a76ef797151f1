package unparsed

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// offered are the tools of a request by name.
type offered map[string]arguments

// arguments are what a tool takes, by name.
type arguments map[string]struct {
	Type any `json:"type"` // a string or several
}

func (a arguments) has(name string) bool { _, ok := a[name]; return ok }

// wantsString reports whether the text of an argument is taken as a string.
func (a arguments) wantsString(name string) bool {
	list, _ := a[name].Type.([]any)
	return !a.has(name) || a[name].Type == "string" || slices.Contains(list, any("string"))
}

func offeredBy(specs []agent.ToolSpec) offered {
	tools := offered{}
	for _, spec := range specs {
		var schema struct{ Properties arguments }
		_ = json.Unmarshal(spec.Schema, &schema) // without types all arguments are strings
		tools[spec.Name] = schema.Properties
	}
	return tools
}

// has reports whether all arguments of a call are in the tool's schema.
func (o offered) has(c agent.ToolCall) bool {
	var args map[string]json.RawMessage
	_ = json.Unmarshal([]byte(c.Args), &args) // it is an object
	for name := range args {
		if !o[c.Name].has(name) {
			return false
		}
	}
	return true
}

// A reader reads the calls that a text begins with.
type reader struct {
	s     string
	i     int
	tools offered
	far   int // how much of s was looked at
}

// block reads the calls of a format. It returns nil if there are none.
func (r *reader) block(f *format, nested int) []agent.ToolCall {
	if !f.open {
		r.to(len(f.begin) + r.i)
	}
	if f.begin == "functools[" {
		r.i-- // the bracket is that of the list
	}
	var calls []agent.ToolCall
	for {
		start := r.i
		r.skip(" \t\r\n;,")
		if f.end != "" && r.accept(f.end) {
			return calls
		}
		one := r.calls(f, nested)
		if one == nil {
			if r.i = start; calls == nil {
				return nil
			}
			if r.skip(" \t\r\n`}"); f.end == "" || !r.accept(f.end) { // a brace too many is a common mistake
				r.i = start
			}
			return calls
		}
		calls = append(calls, one...)
	}
}

// last returns the calls of a bare format if only such calls follow and the tools have
// their arguments.
func (r *reader) last(calls []agent.ToolCall) []agent.ToolCall {
	for calls != nil {
		for r.skip(" \t\r\n"); r.token(); r.skip(" \t\r\n") {
		}
		if r.i == len(r.s) {
			break
		}
		form, _ := formatAt(r.s[r.i:])
		if form == nil || !form.bare {
			return nil
		}
		more := r.block(form, 0)
		if more == nil {
			return nil
		}
		calls = append(calls, more...)
	}
	if slices.ContainsFunc(calls, func(c agent.ToolCall) bool { return !r.tools.has(c) }) {
		return nil
	}
	return calls
}

func (r *reader) token() bool { return slices.ContainsFunc(tokens, r.accept) }

// calls reads one call, or a list of them.
func (r *reader) calls(within *format, nested int) []agent.ToolCall {
	if f, _ := formatAt(r.s[r.i:]); f != nil && !f.open && nested < maxNested {
		return r.block(f, nested+1)
	}
	start := r.i
	switch r.peek() {
	case '{', '[':
		if value := r.value(within); value != nil {
			if calls := r.tools.fromJSON(value, 0); calls != nil {
				return calls
			}
		}
		if r.i = start; r.accept("[") {
			return r.list()
		}
		return nil
	case '<', ']':
		if c := r.element(); c != nil {
			return []agent.ToolCall{*c}
		}
		return nil
	}
	if c := r.named(within); c != nil {
		return []agent.ToolCall{*c}
	}
	return nil
}

// fromJSON returns the calls in a JSON value: an object, or a list in which every object
// is a call.
func (o offered) fromJSON(raw json.RawMessage, nested int) []agent.ToolCall {
	if nested > maxNested {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var calls []agent.ToolCall
		for _, one := range list {
			more := o.fromJSON(one, nested+1)
			if more == nil {
				return nil
			}
			calls = append(calls, more...)
		}
		return calls
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	if len(object) == 1 { // Apertus: {"tool": {arguments}}; OpenAI's own form: {"function": {…}}
		for name, value := range object {
			if _, ok := o[name]; ok {
				return o.call(name, value)
			}
			if name == "function" {
				return o.fromJSON(value, nested+1)
			}
		}
	}
	var name string
	args := json.RawMessage("{}")
	for key, value := range object {
		switch key {
		case "name", "tool_name":
			_ = json.Unmarshal(value, &name) // "" is not a tool
		case "function":
			if json.Unmarshal(value, &name) != nil {
				return o.fromJSON(value, nested+1)
			}
		case "arguments", "parameters", "args", "input":
			args = value
		case "id", "tool_call_id", "type", "index":
		default:
			return nil // the definition of a tool, say
		}
	}
	return o.call(strings.TrimPrefix(name, "functions."), args)
}

// call returns a call with arguments in JSON: an object, or a string that contains one.
func (o offered) call(name string, args json.RawMessage) []agent.ToolCall {
	var text string
	if json.Unmarshal(args, &text) == nil && strings.TrimSpace(text) != "" {
		r := &reader{s: strings.TrimSpace(text)}
		if args = r.value(nil); r.i < len(r.s) {
			return nil
		}
	} else if text == "" && len(args) > 0 && args[0] == '"' {
		args = nil
	}
	if text := string(args); text == "null" || text == "" {
		args = json.RawMessage("{}")
	}
	if _, ok := o[name]; !ok || args[0] != '{' {
		return nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, args) != nil {
		return nil
	}
	return []agent.ToolCall{{Name: name, Args: compact.String()}}
}

// list reads calls in Python syntax up to a bracket.
func (r *reader) list() []agent.ToolCall {
	var calls []agent.ToolCall
	for {
		r.skip(" \t\r\n,")
		if r.accept("]") {
			return calls
		}
		c := r.named(nil)
		if c == nil {
			return nil
		}
		calls = append(calls, *c)
	}
}

// patterns match what is not fixed text.
type patterns struct{ name, between, element, parameter, property, key *regexp.Regexp }

var forms = sync.OnceValue(func() *patterns {
	const open = `^(?:\]<\]minimax\[>\[)?(<\|open\|>|<(?:｜DSML｜|steptml:)?)`
	const shut = `(\s[^<>|]*)?(?:<\|sep\|>|>)`
	return &patterns{
		name: regexp.MustCompile(`^(?:function<｜tool[_▁]sep｜>)?\s*(?:call:|functions\.|default_api\.)?([A-Za-z0-9_-]{1,64})(?::\d+)?`),
		between: regexp.MustCompile(`^(?:\s|\[CALL_ID\]\w*|\[ARGS\]|<｜tool[_▁]sep｜>|<tool_sep>|<\|tool_call_argument_begin\|>|` +
			`<\|channel\|>(?:commentary|analysis)|<\|constrain\|>|<\|message\|>|json\b|code\b|` + "```json)*"),
		element:   regexp.MustCompile(open + `(function|invoke|call)(?:\s*=\s*|\s*(?:name|tool)\s*=\s*)["']?([A-Za-z0-9_-]+)["']?` + shut),
		parameter: regexp.MustCompile(open + `(parameter|param|argument)(?:\s*=\s*|\s*(?:name|key)\s*=\s*)["']?([^"'<>|]+?)["']?` + shut),
		property:  regexp.MustCompile(open + `(([A-Za-z0-9_-]+))` + shut),
		key:       regexp.MustCompile(`^\s*(?:<arg_key>|<\|tool_arg:start\|>)([^<>|]+)(</arg_key>\s*<arg_value>|<\|tool_arg:value\|>)`),
	}
})

// match returns the match of an expression at the current position, and passes over it.
func (r *reader) match(e *regexp.Regexp) []string {
	m := e.FindStringSubmatch(r.s[r.i:])
	if m != nil {
		r.to(r.i + len(m[0]))
	}
	return m
}

// named reads a call that begins with its name. The arguments are JSON, Python syntax, or
// keys and values; there may be none before the end of the format.
func (r *reader) named(within *format) *agent.ToolCall {
	if after, ok := strings.CutPrefix(r.s[r.i:], "function<｜tool_sep｜>"); ok && strings.HasPrefix(after, "<steptml:") {
		r.to(len(r.s) - len(after)) // Step 3 has an element behind it
		return r.element()
	}
	m := r.match(forms().name)
	if m == nil || !r.known(m[1]) {
		return nil
	}
	r.match(forms().between)
	var args json.RawMessage
	switch r.peek() {
	case '{':
		args = r.value(within)
	case '(':
		args = r.arguments()
	default:
		args = r.keys(m[1])
		if len(args) == len("{}") && (within == nil || within.end == "" || !strings.HasPrefix(r.s[r.i:], within.end)) {
			return nil
		}
	}
	if args == nil {
		return nil
	}
	return &agent.ToolCall{Name: m[1], Args: string(args)}
}

func (r *reader) known(name string) bool { _, ok := r.tools[name]; return ok }

// keys reads arguments written as pairs of key and value.
func (r *reader) keys(tool string) json.RawMessage {
	var args object
	for {
		m := r.match(forms().key)
		if m == nil {
			r.skip(" \t\r\n")
			return args.json()
		}
		end := "</arg_value>"
		if strings.HasPrefix(m[2], "<|") {
			end = "<|tool_arg:end|>"
		}
		text, ok := r.until(end)
		if !ok {
			return nil
		}
		args.add(strings.TrimSpace(m[1]), r.tools[tool], text, false)
	}
}

// element reads a call written as an XML element. It contains JSON, or an element for
// each argument.
func (r *reader) element() *agent.ToolCall {
	m := r.match(forms().element)
	if m == nil || !r.known(m[3]) {
		return nil
	}
	var args json.RawMessage
	if r.skip(" \t\r\n"); r.peek() == '{' {
		args = r.value(nil)
	} else {
		args = r.parameters(m[3])
	}
	if args == nil {
		return nil
	}
	r.skip(" \t\r\n")
	r.accept("]<]minimax[>[")
	r.accept(closing(m))
	return &agent.ToolCall{Name: m[3], Args: string(args)}
}

func closing(m []string) string {
	if m[1] == "<|open|>" {
		return "<|close|>" + m[2] + "<|sep|>"
	}
	return "</" + m[1][1:] + m[2] + ">"
}

func (r *reader) parameters(tool string) json.RawMessage {
	var args object
	types := r.tools[tool]
	for {
		r.skip(" \t\r\n")
		m := r.match(forms().parameter)
		if m == nil { // MiniMax M3 names elements by their arguments
			m = forms().property.FindStringSubmatch(r.s[r.i:])
			if m == nil || !types.has(m[3]) {
				return args.json()
			}
			r.to(r.i + len(m[0]))
		}
		text, ok := r.until(closing(m))
		if !ok {
			return nil
		}
		asIs := strings.Contains(m[4], `string="true"`) || strings.Contains(m[4], `type="string"`)
		args.add(m[3], types, strings.TrimSuffix(text, "]<]minimax[>["), asIs)
	}
}

// until returns the text before end, and passes over both.
func (r *reader) until(end string) (string, bool) {
	n := strings.Index(r.s[r.i:], end)
	if n < 0 {
		r.far = len(r.s)
		return "", false
	}
	text := r.s[r.i : r.i+n]
	r.to(r.i + n + len(end))
	return text, true
}
