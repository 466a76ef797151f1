// Package script is a dialect of package textcall: the model acts through a bash script at
// the end of its answer, between two lines.
//
//	agent2_script_start
//	ls
//	agent2_script_end
//
// The script becomes a call of the tool bash. The next message contains its output and exit
// status. A fenced ```bash block at the end of an answer counts too, if it is the only one.
//
// In detail:
//
//   - An answer without a script is the final answer.
//   - Of several scripts the first runs. What follows its end is ignored.
//   - Marker lines inside of a script belong to it if they are balanced.
//   - A script without its end line, or an end without a beginning, does not run.
//   - agent2_wait SECONDS as the last line waits at most that long for a background command
//     to end. Without a number, nothing runs.
//   - A script that begins with agent2_call NAME {…} calls other tools, one for each such
//     line; the arguments may have several lines. So these calls pass the same rules,
//     budgets and journal as all calls.
//
// The system prompt contains these rules, and a script that is wrong gets an error.
package script

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/loosejson"
	"github.com/agents-exe/agents/pkg/provider/textcall"
)

// The lines around a script, unless a Dialect has others.
const (
	DefaultStart = "agent2_script_start"
	DefaultEnd   = "agent2_script_end"
)

// wait begins the line that waits for a background command.
const wait = "agent2_wait"

// Tool is the name of the tool that runs scripts.
const Tool = "bash"

// A Dialect is a textcall.Dialect. Start and End are the lines around a script; "" means
// the defaults.
type Dialect struct{ Start, End string }

func (d Dialect) start() string { return cmp.Or(d.Start, DefaultStart) }
func (d Dialect) end() string   { return cmp.Or(d.End, DefaultEnd) }

func waits(tools []agent.ToolSpec) bool {
	return slices.ContainsFunc(tools, func(t agent.ToolSpec) bool {
		return t.Name == Tool && strings.Contains(string(t.Schema), `"wait_seconds"`)
	})
}

// Instructions implements textcall.Dialect.
func (d Dialect) Instructions(tools []agent.ToolSpec) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Scripts

You act by a bash script at the end of your answer, between these two lines:

%[1]s
COMMANDS
%[2]s

The script runs when your answer has ended. The next message has what it printed, and its exit status.

- Write one script, and nothing after the line %[2]s: what follows is ignored, and you do not know yet what the script prints.
- Each of the two lines stands alone. A script without the line %[2]s does not run.
- An answer without a script is your final answer and ends your work. One block `+"```bash"+` at the end of an answer is a script too if there is no other; put commands that must not run into a block `+"```text"+`.
`, d.start(), d.end())
	others := slices.Clone(tools)
	if i := slices.IndexFunc(others, func(t agent.ToolSpec) bool { return t.Name == Tool }); i >= 0 {
		fmt.Fprintf(&b, "- %s\n", others[i].Description)
		others = slices.Delete(others, i, i+1)
	}
	if waits(tools) {
		b.WriteString("- If the last line of the script is agent2_wait SECONDS, the next message comes as soon as a command in the background has ended, or after so many seconds. An answer whose last line is agent2_wait SECONDS waits without a script.\n")
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, `
# Tools

You can call tools in a script that does nothing else, one in each line:

%s
agent2_call NAME {"ARGUMENT": "VALUE"}
%s

`, d.start(), d.end())
		b.WriteString(textcall.Describe(others))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Read implements textcall.Dialect.
func (d Dialect) Read(text string, tools []agent.ToolSpec) textcall.Answer {
	a, script, found := d.find(text)
	if found {
		a.Whole = a.Wrong == ""
		a.Calls = calls(script, tools)
	}
	return a
}

// find finds the script in an answer, and what is wrong with it.
func (d Dialect) find(text string) (a textcall.Answer, script string, found bool) {
	if a, script, found = d.search(text); !found || a.Wrong != "" {
		return a, script, found
	}
	lines := strings.Split(strings.TrimSpace(script), "\n")
	switch {
	case !d.balanced(a.Ignored):
		a.Wrong = fmt.Sprintf("there are more lines %s than lines %s; a script that contains such lines must contain as many of both", d.end(), d.start())
	case strings.HasPrefix(strings.TrimSpace(lines[len(lines)-1])+" ", wait+" ") && !patterns().wait.MatchString(script):
		a.Wrong = "agent2_wait takes a number of seconds, as in agent2_wait 30"
	default:
		return a, script, found
	}
	a.Said, a.Ignored = a.Said+a.Ignored, ""
	return a, script, found
}

// balanced reports whether each end line in text follows a start line.
func (d Dialect) balanced(text string) bool {
	depth := 0
	for line := range strings.Lines(text) {
		switch d.marker(line) {
		case d.start():
			depth++
		case d.end():
			depth--
		}
		if depth < 0 {
			return false
		}
	}
	return true
}

func (d Dialect) marker(line string) string { return strings.Trim(line, "`*<> \t\r\n") }

// search finds the first script in an answer.
func (d Dialect) search(text string) (a textcall.Answer, script string, found bool) {
	begin, body, depth, at, before := -1, 0, 0, 0, 0
	for line := range strings.Lines(text) {
		next := at + len(line)
		switch d.marker(line) {
		case d.start():
			if depth++; depth == 1 {
				begin, body = at, next
				if before < at && patterns().fence.MatchString(text[before:at]) {
					begin = before
				}
			}
		case d.end():
			if depth--; depth < 0 {
				return textcall.Answer{Text: text[:at], Said: text[at:], Wrong: "there is no line " + d.start() + " before the line " + d.end()}, "", true
			}
			if depth == 0 {
				a, script = split(text, begin, next), unfenced(text[body:at])
				if m := patterns().wait.FindStringIndex(a.Ignored); m != nil && strings.TrimSpace(a.Ignored[:m[0]]) == "" {
					script += "\n" + strings.TrimSpace(a.Ignored)
					a.Said, a.Ignored = a.Said+a.Ignored, ""
				}
				return a, script, true
			}
		}
		before, at = at, next
	}
	if begin >= 0 {
		return textcall.Answer{Text: text[:begin], Said: text[begin:], Wrong: "the script ends without a line " + d.end() + cutOff}, text[body:], true
	}
	m := patterns().wait.FindStringIndex(text)
	if m != nil { // it may follow the block
		if a, script, found = fenced(text[:m[0]]); found && a.Wrong == "" {
			a.Said += text[m[0]:]
			return a, script + "\n" + strings.TrimSpace(text[m[0]:]), found
		}
	}
	if a, script, found = fenced(text); found {
		return a, script, found
	}
	if m != nil { // it needs no script around it
		return textcall.Answer{Text: text[:m[0]], Said: text[m[0]:]}, text[m[0]:], true
	}
	return a, script, found
}

const cutOff = "; if your answer was cut off, write less at once"

// split divides an answer. The end of a block around the script is a part of it.
func split(text string, begin, end int) textcall.Answer {
	if strings.Trim(text[end:], "` \t\r\n") == "" {
		end = len(text)
	}
	return textcall.Answer{Text: text[:begin], Said: text[begin:end], Ignored: text[end:]}
}

// The patterns are compiled when they are first used: the opening line of any block, the
// opening and the closing line of one that can be a script, the line that waits, and the
// beginning of a call of another tool.
var patterns = sync.OnceValue(func() (p struct{ fence, block, tail, wait, direct *regexp.Regexp }) {
	p.fence = regexp.MustCompile("^\\s*```\\w*\\s*$")
	p.block = regexp.MustCompile("(?m)^[ \\t]*```[ \\t]*(?:bash|sh|shell)[ \\t\\r]*\\n")
	p.tail = regexp.MustCompile("(?m)^[ \\t]*```[ \\t\\r]*$")
	p.wait = regexp.MustCompile(`(?:^|\n)[ \t]*agent2_wait[ \t]+(\d+(?:\.\d+)?)s?[ \t\r]*\n?\s*$`)
	p.direct = regexp.MustCompile(`(?m)^[ \t]*agent2_call[ \t]+([\w.-]+)`)
	return p
})

// unfenced is a script without a fenced block around it.
func unfenced(script string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(script), "\n")
	if inner, ok := strings.CutSuffix(rest, "\n```"); ok && patterns().fence.MatchString(first) {
		return inner + "\n"
	}
	return script
}

// fenced finds the only fenced block at the end of an answer.
func fenced(text string) (a textcall.Answer, script string, found bool) {
	blocks := patterns().block.FindAllStringIndex(text, 2)
	if len(blocks) != 1 {
		return textcall.Answer{Text: text}, "", false
	}
	begin, body := blocks[0][0], blocks[0][1]
	end := patterns().tail.FindStringIndex(text[body:])
	switch {
	case end == nil:
		return textcall.Answer{Text: text[:begin], Said: text[begin:], Wrong: "the block with the script has no end" + cutOff}, text[body:], true
	case strings.TrimSpace(text[body+end[1]:]) != "":
		return textcall.Answer{Text: text}, "", false
	}
	return textcall.Answer{Text: text[:begin], Said: text[begin:]}, text[body : body+end[0]], true
}

const maxWait = 3600

func calls(script string, tools []agent.ToolSpec) []agent.ToolCall {
	seconds := 0.0
	if m := patterns().wait.FindStringSubmatchIndex(script); m != nil {
		seconds, _ = strconv.ParseFloat(script[m[2]:m[3]], 64) // at worst too large
		// A fence may end before the line that waits.
		script = unfenced(script[:m[0]])
		seconds = min(seconds, maxWait)
	}
	args := map[string]any{"command": script}
	at := patterns().direct.FindAllStringSubmatchIndex(script, -1)
	switch {
	case len(at) > 0 && strings.TrimSpace(script[:at[0][0]]) == "":
		return toolCalls(script, at)
	case seconds > 0 && waits(tools):
		args["wait_seconds"] = seconds
	case seconds > 0:
		args["command"] = fmt.Sprintf("%s\nsleep %g", script, seconds)
	}
	return []agent.ToolCall{{Name: Tool, Args: loosejson.Write(args)}}
}

// toolCalls are the calls of other tools; at is where they begin.
func toolCalls(script string, at [][]int) []agent.ToolCall {
	list := make([]agent.ToolCall, len(at))
	for i, m := range at {
		end := len(script)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		args := strings.TrimSpace(script[m[1]:end])
		args = cmp.Or(args, "{}")
		if fixed, n, err := loosejson.Read(args); err == nil && strings.TrimSpace(args[n:]) == "" {
			args = string(fixed)
		}
		list[i] = agent.ToolCall{Name: script[m[2]:m[3]], Args: args}
	}
	return list
}

// Write implements textcall.Dialect.
func (d Dialect) Write(c agent.ToolCall) string {
	var args struct {
		Command string  `json:"command"`
		Wait    float64 `json:"wait_seconds"`
	}
	body := fmt.Sprintf("agent2_call %s %s", c.Name, c.Args)
	if c.Name == Tool && json.Unmarshal([]byte(c.Args), &args) == nil {
		if body = args.Command; args.Wait > 0 {
			body += fmt.Sprintf("\nagent2_wait %g", args.Wait)
		}
	}
	return d.start() + "\n" + body + "\n" + d.end() + "\n"
}

// Results implements textcall.Dialect.
func (d Dialect) Results(said, ignored string, results []agent.ToolResult) []agent.Part {
	if a, _, _ := d.find(said); a.Wrong != "" && len(results) > 0 && strings.HasPrefix(results[0].Text(), "error: not run: ") {
		return []agent.Part{agent.Text("[not run: " + a.Wrong + "]")}
	}
	var parts []agent.Part
	for i, r := range results {
		if r.Name == Tool && len(results) == 1 {
			parts = append(parts, output(r)...)
			if text := r.Text(); strings.Contains(text, ": agent2_call: command not found") || strings.Contains(text, ": agent2_wait: command not found") {
				parts = append(parts, agent.Text("\n[agent2_call is only read in a script that does nothing else, agent2_wait only in the last line.]"))
			}
			continue
		}
		parts = append(parts, textcall.Result(i, r)...)
	}
	if ignored != "" {
		parts = append(parts, agent.Text(fmt.Sprintf("\n[What you wrote after the line %s was ignored. End your answer there.]", d.end())))
	}
	return parts
}

// output is the result of a script with its exit status in the first line. One that runs
// on has none.
func output(r agent.ToolResult) []agent.Part {
	text := r.Text()
	if !r.Failed {
		if i := strings.LastIndex(text, "[It still runs after "); i >= 0 && (i == 0 || text[i-1] == '\n') {
			return r.Parts
		}
		return append([]agent.Part{agent.Text("[exit status 0]\n")}, r.Parts...)
	}
	first, rest, more := strings.Cut(strings.TrimPrefix(text, "error: "), "\n")
	if head := "[" + first + "]"; more {
		text = head + "\n" + strings.TrimPrefix(rest, "\n")
	} else {
		text = head
	}
	return []agent.Part{agent.Text(text)}
}

// Opens implements textcall.Dialect.
func (d Dialect) Opens(line string, complete bool) bool {
	line = strings.Trim(line, "`*<> \t\r")
	if strings.HasPrefix(line, wait) {
		return true
	}
	if complete {
		return line == d.start() || line == "bash" || line == "sh" || line == "shell"
	}
	return strings.HasPrefix(d.start(), line) || strings.HasPrefix(wait, line) || strings.HasPrefix("bash", line) || strings.HasPrefix("shell", line)
}
