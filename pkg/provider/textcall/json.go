package textcall

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/loosejson"
)

// JSON is the Dialect in which each call is a block ```json with {"tool": NAME, "args":
// {…}}. It accepts common mistakes of small models: those that package loosejson reads,
// other names for the two keys, arguments that are encoded twice or are beside the name,
// and a missing fence. Text that begins like a call of a tool and cannot be parsed becomes
// a call that fails. Any other JSON is part of the answer.
type JSON struct{}

// Instructions implements Dialect.
func (JSON) Instructions(tools []agent.ToolSpec) string {
	return `# Tools

You can call tools. To call one, end your answer with a block like this:

` + "```json\n{\"tool\": \"NAME\", \"args\": {\"ARGUMENT\": \"VALUE\"}}\n```" + `

- It is valid JSON: names and texts in double quotes, \" and \n inside of texts, no comments.
- Several blocks are several calls, which run at the same time.
- Write nothing after the last block: the next message has the results.
- An answer without such a block is your final answer and ends your work.

` + Describe(tools)
}

// Describe lists tools for a model.
func Describe(tools []agent.ToolSpec) string {
	var b strings.Builder
	b.WriteString("The tools, with the JSON Schema of their arguments:\n")
	for _, t := range tools {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", t.Name, strings.TrimSpace(t.Description), t.Schema)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// The patterns are compiled when they are first used.
var patterns = sync.OnceValue(func() (p struct{ candidate, closing, broken, opening *regexp.Regexp }) {
	// Where a value can begin: behind the opening of a block, or at the beginning of a line,
	// behind a label or tag.
	p.candidate = regexp.MustCompile("(?m)(?:(?:```|~~~)[\\w+-]*\\s*|^[ \\t]*(?:[\\w ]{1,30}:[ \\t]*|<[\\w|]{1,30}>\\s*)?)([\\[{])")
	// The end of a block or tag.
	p.closing = regexp.MustCompile("^\\s*(?:(?:```|~~~)+|</[\\w|]+>)[ \\t]*\\n?")
	// The beginning of a call that cannot be read.
	p.broken = regexp.MustCompile(`^[\[{]\s*\{?\s*["']?(?:tool|name|tool_name|function)["']?\s*[:=]\s*["']?([\w-]+)`)
	// The line that may begin a call.
	p.opening = regexp.MustCompile("^\\s*(?:(?:```|~~~)\\s*(?:json\\w*|tool\\w*|function\\w*)?\\s*(?:$|[{\\[])|\\{)")
	return p
})

// maxCandidates limits at how many places of an answer a call is looked for. workPerByte limits
// how many bytes this reads in all, for each byte of the answer and beyond minWork: a value may
// extend to the end. maxNested limits the nesting of lists of calls.
const (
	maxCandidates = 1000
	minWork       = 1 << 20
	workPerByte   = 16
	maxNested     = 8
)

// Read implements Dialect.
func (JSON) Read(text string, tools []agent.ToolSpec) Answer {
	a := Answer{Text: text}
	begin, end := -1, 0
	at, work := 0, 0
	for _, m := range patterns().candidate.FindAllStringSubmatchIndex(text, maxCandidates) {
		start, value := m[0], m[2]
		if value < at {
			continue
		}
		if work > max(workPerByte*len(text), minWork) {
			break
		}
		calls, n, seen := readCalls(text[value:], tools)
		work += seen
		at = value + n
		if len(calls) == 0 {
			continue
		}
		a.Calls = append(a.Calls, calls...)
		if begin < 0 {
			begin = start
		}
		end = at + len(patterns().closing.FindString(text[at:]))
	}
	if begin >= 0 {
		a.Text, a.Said, a.Ignored = text[:begin], text[begin:end], text[end:]
		if strings.TrimSpace(a.Ignored) == "" {
			a.Said, a.Ignored = text[begin:], ""
		}
	}
	return a
}

// readCalls reads the calls in the value at the beginning of text, and how long it is. seen is
// how much of text was looked at.
func readCalls(text string, tools []agent.ToolSpec) (calls []agent.ToolCall, n, seen int) {
	raw, seen, err := loosejson.Read(text)
	if err == nil {
		return callsOf(raw, tools, 0), seen, seen
	}
	if m := patterns().broken.FindStringSubmatch(text); m != nil {
		if name, ok := known(m[1], tools); ok {
			n = len(text)
			if i := strings.Index(text, "\n```"); i >= 0 {
				n = i
			}
			return []agent.ToolCall{{Name: name, Args: text[:n]}}, n, seen
		}
	}
	return nil, 1, seen
}

var (
	nameKeys = []string{"tool", "name", "tool_name", "function", "function_name", "action"}
	argsKeys = []string{"args", "arguments", "parameters", "params", "input", "tool_input", "action_input"}
)

// callsOf returns the calls in a value: an object, an array of them, or an object that has
// them in tool_calls.
func callsOf(raw json.RawMessage, tools []agent.ToolSpec, nested int) []agent.ToolCall {
	if nested > maxNested {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var calls []agent.ToolCall
		for _, item := range list {
			more := callsOf(item, tools, nested+1)
			if more == nil {
				return nil
			}
			calls = append(calls, more...)
		}
		return calls
	}
	object, err := agent.DecodeArgs(string(raw))
	if err != nil {
		return nil
	}
	if inner, ok := object["tool_calls"]; ok {
		return callsOf(inner, tools, nested+1)
	}
	if inner, ok := object["function"]; ok && inner[0] == '{' {
		return callsOf(inner, tools, nested+1)
	}
	if c, ok := callOf(object, tools); ok {
		return []agent.ToolCall{c}
	}
	return nil
}

func callOf(object map[string]json.RawMessage, tools []agent.ToolSpec) (agent.ToolCall, bool) {
	for _, key := range nameKeys {
		var name string
		if json.Unmarshal(object[key], &name) != nil || name == "" {
			continue
		}
		tool, exists := known(name, tools)
		for _, at := range argsKeys {
			if args, ok := object[at]; ok && (exists || key == "tool" && args[0] == '{') {
				return agent.ToolCall{Name: tool, Args: decodeAgain(args, tool, tools)}, true
			}
		}
		if exists {
			rest := map[string]json.RawMessage{}
			for k, v := range object {
				if k != key && k != "id" && k != "type" {
					rest[k] = v
				}
			}
			args, err := json.Marshal(rest)
			return agent.ToolCall{Name: tool, Args: string(args)}, err == nil
		}
	}
	for key, args := range object { // {"bash": {"command": "ls"}}
		if name, exists := known(key, tools); exists && len(object) == 1 && args[0] == '{' {
			return agent.ToolCall{Name: name, Args: string(args)}, true
		}
	}
	return agent.ToolCall{}, false
}

// decodeAgain reads arguments in a string: JSON, or the value of the only argument.
func decodeAgain(args json.RawMessage, tool string, tools []agent.ToolSpec) string {
	var text string
	if json.Unmarshal(args, &text) != nil || string(args) == "null" {
		if string(args) == "null" || string(args) == "[]" {
			return "{}"
		}
		return string(args)
	}
	inner, n, err := loosejson.Read(text)
	isObject := err == nil && inner[0] == '{'
	if isObject && strings.Trim(text[n:], " \t\r\n}") == "" { // a brace too many is a common mistake
		return string(inner)
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	i := slices.IndexFunc(tools, func(t agent.ToolSpec) bool { return t.Name == tool })
	if i >= 0 && json.Unmarshal(tools[i].Schema, &schema) == nil && len(schema.Properties) == 1 {
		for name := range schema.Properties {
			wrapped, _ := json.Marshal(map[string]json.RawMessage{name: args})
			return string(wrapped)
		}
	}
	if isObject {
		return string(inner)
	}
	return string(args)
}

// known returns the tool that a model means by name, and name itself if there is none.
func known(name string, tools []agent.ToolSpec) (tool string, exists bool) {
	short := name[strings.LastIndexByte(name, '.')+1:] // functions.bash
	for _, same := range []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.EqualFold(s, short) },
		func(s string) bool {
			_, rest, ok := strings.Cut(s, "_") // bash_ and expert_ of this program
			return ok && strings.EqualFold(rest, short)
		},
	} {
		var found []string
		for _, t := range tools {
			if same(t.Name) {
				found = append(found, t.Name)
			}
		}
		if len(found) == 1 {
			return found[0], true
		}
	}
	return name, false
}

// Write implements Dialect.
func (JSON) Write(c agent.ToolCall) string {
	args := c.Args
	if !json.Valid([]byte(args)) {
		quoted, _ := json.Marshal(args)
		args = string(quoted)
	}
	return fmt.Sprintf("```json\n{\"tool\": %q, \"args\": %s}\n```\n", c.Name, args)
}

// Results implements Dialect.
func (JSON) Results(_, ignored string, results []agent.ToolResult) []agent.Part {
	var parts []agent.Part
	for i, r := range results {
		parts = append(parts, Result(i, r)...)
	}
	if ignored != "" {
		parts = append(parts, agent.Text("\n\n[What you wrote after the last call was ignored. End your answer with the call.]"))
	}
	return parts
}

// Result is a result with a line that says what it is the result of.
func Result(i int, r agent.ToolResult) []agent.Part {
	head := fmt.Sprintf("[result of %s]\n", r.Name)
	if i > 0 {
		head = "\n\n" + head
	}
	return append([]agent.Part{agent.Text(head)}, r.Parts...)
}

// Opens implements Dialect.
func (JSON) Opens(line string, complete bool) bool {
	if complete {
		return patterns().opening.MatchString(line)
	}
	line = strings.TrimLeft(line, " \t")
	return line == "" || strings.ContainsRune("`~{", rune(line[0]))
}
