package script

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/textcall"
	"github.com/google/go-cmp/cmp"
)

var tools = []agent.ToolSpec{
	{Name: "bash", Description: "Runs commands with bash.", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"wait_seconds":{"type":"number"}}}`)},
	{Name: "bash_kill", Description: "Ends a command.", Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`)},
}

// The answers have S and E in place of the markers, and F in place of three backticks.
func TestRead(t *testing.T) {
	ls := []string{`bash {"command":"ls\n"}`}
	for _, test := range []struct {
		name, text     string
		calls          []string
		ignored, text1 string
		wrong          string
	}{
		{name: "a script", text: "I look.\nS\nls\nE\n", calls: ls, text1: "I look.\n"},
		{name: "nothing else", text: "S\nls\nE", calls: ls},
		{name: "several lines", text: "S\na=1\n\necho \"<$a>\" '\\n' && true\nE", calls: []string{`bash {"command":"a=1\n\necho \"<$a>\" '\\n' && true\n"}`}},
		{name: "an empty script", text: "S\nE\n", calls: []string{`bash {"command":""}`}},
		{name: "text after the end", text: "S\nls\nE\nIt prints a.txt.", calls: ls, ignored: "It prints a.txt."},
		{name: "several scripts", text: "S\nls\nE\nthen\nS\nrm x\nE", calls: ls, ignored: "then\nS\nrm x\nE"},
		{name: "nested", text: "S\ncat <<X\nS\nrm x\nE\nX\nE\n", calls: []string{`bash {"command":"cat <<X\nS\nrm x\nE\nX\n"}`}},
		{name: "nested without an end", text: "S\nls\nS\nls\nE\n", calls: []string{`bash {"command":"ls\nS\nls\nE\n"}`}, wrong: "the script ends without a line E; if your answer was cut off, write less at once"},
		{name: "no end", text: "I look.\nS\nrm -rf /tmp/x", calls: []string{`bash {"command":"rm -rf /tmp/x"}`}, text1: "I look.\n", wrong: "the script ends without a line E; if your answer was cut off, write less at once"},
		{name: "no beginning", text: "ls\nE", calls: []string{`bash {"command":""}`}, text1: "ls\n", wrong: "there is no line S before the line E"},
		{name: "markers with white space and signs", text: "  S \r\nls\n **E**\n", calls: ls},
		{name: "in a block", text: "I look.\nFbash\nS\nls\nE\nF\n", calls: ls, text1: "I look.\n"},
		{name: "around a block", text: "S\nFbash\nls\nF\nE\n", calls: ls},
		{name: "a marker in a line", text: "I write S and then E.", text1: "I write S and then E."},
		{name: "a fenced block at the end", text: "I look.\n\nFbash\nls\nF\n", calls: ls, text1: "I look.\n\n"},
		{name: "a fenced block of sh", text: "Fsh\nls\nF", calls: ls},
		{name: "a fenced block that is not at the end", text: "Fbash\nls\nF\nlists files."},
		{name: "two fenced blocks", text: "Fbash\nls\nF\nor\nFbash\nfind\nF"},
		{name: "a fenced block without an end", text: "Fbash\nls\n", calls: ls, wrong: "the block with the script has no end; if your answer was cut off, write less at once"},
		{name: "another fenced block", text: "Ftext\nls\nF"},
		{name: "no script", text: "It is done."},
		{name: "wait", text: "S\nmake\nagent2_wait 30\nE", calls: []string{`bash {"command":"make","wait_seconds":30}`}},
		{name: "only wait", text: "S\nagent2_wait 1.5s\n\nE", calls: []string{`bash {"command":"","wait_seconds":1.5}`}},
		{name: "wait without a script", text: "It builds.\n\nagent2_wait 10\n", calls: []string{`bash {"command":"","wait_seconds":10}`}, text1: "It builds.\n"},
		{name: "wait alone", text: "agent2_wait 10", calls: []string{`bash {"command":"","wait_seconds":10}`}},
		{name: "wait after the script", text: "S\nmake &\nE\nagent2_wait 10\n", calls: []string{`bash {"command":"make &\n","wait_seconds":10}`}},
		{name: "wait in prose", text: "Then write agent2_wait 10"},
		{name: "wait too long", text: "S\nagent2_wait 99999999\nE", calls: []string{`bash {"command":"","wait_seconds":3600}`}},
		{name: "more ends than beginnings", text: "S\ncat <<X\nE\nX\nE\n", calls: []string{`bash {"command":"cat <<X\n"}`}, wrong: "there are more lines E than lines S; a script that contains such lines must contain as many of both"},
		{name: "wait without a number", text: "S\nls\nagent2_wait x\nE\nok", calls: []string{`bash {"command":"ls\nagent2_wait x\n"}`}, wrong: "agent2_wait takes a number of seconds, as in agent2_wait 30"},
		{name: "wait without anything", text: "S\nagent2_wait\nE", calls: []string{`bash {"command":"agent2_wait\n"}`}, wrong: "agent2_wait takes a number of seconds, as in agent2_wait 30"},
		{name: "wait not at the end", text: "S\nagent2_wait 5\nls\nE", calls: []string{`bash {"command":"agent2_wait 5\nls\n"}`}},
		{name: "a tool", text: "S\nagent2_call bash_kill {'id': \"1.1\",}\nE", calls: []string{`bash_kill {"id":"1.1"}`}},
		{name: "tools", text: "S\n\nagent2_call bash_kill {\n \"id\": \"1.1\"\n}\nagent2_call expert_poet {\"prompt\": \"x\"}\nagent2_call bash_list\nE", calls: []string{"bash_kill {\n \"id\": \"1.1\"\n}", `expert_poet {"prompt": "x"}`, "bash_list {}"}},
		{name: "a tool with broken arguments", text: "S\nagent2_call bash_kill {\"id\": \"1.1} x\nE", calls: []string{`bash_kill {"id": "1.1} x`}},
		{name: "a tool behind a command", text: "S\nls\nagent2_call bash_list\nE", calls: []string{`bash {"command":"ls\nagent2_call bash_list\n"}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Dialect{Start: "S", End: "E"}
			text := strings.ReplaceAll(test.text, "F", "```")
			a := d.Read(text, tools)
			var got []string
			for _, c := range a.Calls {
				got = append(got, c.Name+" "+c.Args)
			}
			if diff := cmp.Diff(test.calls, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if test.calls == nil {
				test.text1 = text
			}
			if a.Text+a.Said+a.Ignored != text || a.Text != test.text1 || a.Ignored != test.ignored || a.Wrong != test.wrong {
				t.Errorf("Read = %+v", a)
			}
		})
	}
}

func TestWaitWithoutABackgroundSleeps(t *testing.T) {
	got := Dialect{}.Read("agent2_script_start\nls\nagent2_wait 2\nagent2_script_end\n", []agent.ToolSpec{{Name: "bash"}})
	if len(got.Calls) != 1 || got.Calls[0].Args != `{"command":"ls\nsleep 2"}` {
		t.Errorf("Read = %+v", got)
	}
}

func TestResults(t *testing.T) {
	result := func(failed bool, text string) agent.ToolResult {
		return agent.ToolResult{Name: "bash", Failed: failed, Parts: []agent.Part{agent.Text(text)}}
	}
	for _, test := range []struct {
		name, said, ignored string
		results             []agent.ToolResult
		want                string
	}{
		{"success", "S\nls\nE\n", "", []agent.ToolResult{result(false, "a.txt\n")}, "[exit status 0]\na.txt\n"},
		{"failure", "S\nls\nE\n", "", []agent.ToolResult{result(true, "error: exit status 2\n\nno such file\n")}, "[exit status 2]\nno such file\n"},
		{"refusal", "S\nls\nE\n", "", []agent.ToolResult{result(true, "error: not run: refused by policy: no")}, "[not run: refused by policy: no]"},
		{"in the background", "S\nls\nE\n", "", []agent.ToolResult{result(false, "a\n\n[It still runs after 1 s and so on]")}, "a\n\n[It still runs after 1 s and so on]"},
		{"ignored text", "S\nls\nE\n", "x", []agent.ToolResult{result(false, "a\n")}, "[exit status 0]\na\n\n[What you wrote after the line E was ignored. End your answer there.]"},
		{"cut", "S\nls", "", []agent.ToolResult{result(true, "error: not run: it broke off")}, "[not run: the script ends without a line E; if your answer was cut off, write less at once]"},
		{"a wait among commands", "S\nagent2_wait 1\nls\nE", "", []agent.ToolResult{result(false, "bash: line 1: agent2_wait: command not found\n")},
			"[exit status 0]\nbash: line 1: agent2_wait: command not found\n\n[agent2_call is only read in a script that does nothing else, agent2_wait only in the last line.]"},
		{"of another model", "S\nls\nagent2_wait x\nE", "", []agent.ToolResult{result(false, "a\n")}, "[exit status 0]\na\n"},
		{"a call among commands", "S\nls\nagent2_call x\nE", "", []agent.ToolResult{result(true, "error: exit status 127\nbash: line 2: agent2_call: command not found\n")},
			"[exit status 127]\nbash: line 2: agent2_call: command not found\n\n[agent2_call is only read in a script that does nothing else, agent2_wait only in the last line.]"},
		{"tools", "S\nagent2_call bash_list\nE", "", []agent.ToolResult{{Name: "bash_list", Parts: []agent.Part{agent.Text("none")}}}, "[result of bash_list]\nnone"},
	} {
		got := agent.Message{Parts: Dialect{Start: "S", End: "E"}.Results(test.said, test.ignored, test.results)}.Text()
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A fence around the commands is ignored wherever the line that waits is.
func TestAFenceAndAWait(t *testing.T) {
	for _, fence := range []string{"```", "```bash", "```sh"} {
		for _, body := range []string{fence + "\nls\n```\nagent2_wait 3\n", fence + "\nls\nagent2_wait 3\n```\n", "\n" + fence + "\nls\n```\n\nagent2_wait 3\n\n"} {
			texts := []string{"S\n" + body + "E\n", "S\n" + strings.Replace(body, "agent2_wait 3\n", "", 1) + "E\nagent2_wait 3\n"}
			if fence != "```" { // which alone is no script
				texts = append(texts, body, "I look.\n"+body)
			}
			for _, text := range texts {
				a := Dialect{Start: "S", End: "E"}.Read(text, tools)
				var args struct {
					Command string
					Wait    float64 `json:"wait_seconds"`
				}
				if len(a.Calls) == 1 {
					json.Unmarshal([]byte(a.Calls[0].Args), &args)
				}
				if strings.TrimSpace(args.Command) != "ls" || args.Wait != 3 {
					t.Errorf("Read(%q) = %+v", text, a)
				}
			}
		}
	}
}

// What is shown while an answer arrives is what it says beside the script.
func TestScriptsAreNotShown(t *testing.T) {
	for _, text := range []string{"I look.\nagent2_script_start\nls\nagent2_script_end\n", "I look.\n```bash\nls\n```\n", "I wait.\nagent2_wait 30", "I wait.\n  agent2_wait 2.5s\n", "agent2_wait 1\n",
		"agent2_wait 1 is a line\nof the answer", "Hi\nagent2_wait lets me wait.\nA bash\nbash\nscript:\nagent2_script_start\nls\nagent2_script_end\n", "I look and wait.\n```bash\nls\n```\nagent2_wait 3\n", "It is\nagent2", "Here is\n```text\nls\n```\n"} {
		for _, size := range []int{1, 5, 1000} {
			shown := ""
			p := &textcall.Provider{Provider: pieces{text, size}, Dialect: Dialect{}}
			resp, err := p.Generate(t.Context(), &agent.Request{Tools: tools}, func(d agent.Delta) { shown += d.Text })
			if err != nil || strings.TrimSpace(shown) != strings.TrimSpace(resp.Message.Text()) {
				t.Errorf("in pieces of %d: shown is %q, %v, want %q", size, shown, err, resp.Message.Text())
			}
		}
	}
}

// pieces is a model that answers with a text, in pieces of so many bytes.
type pieces struct {
	text string
	size int
}

func (p pieces) Generate(_ context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	for piece := range slices.Chunk([]byte(p.text), p.size) {
		delta(agent.Delta{Kind: agent.DeltaText, Text: string(piece)})
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(p.text)}}}, nil
}

func TestWriteIsReadBack(t *testing.T) {
	for _, c := range []agent.ToolCall{
		{Name: "bash", Args: `{"command":"ls"}`}, {Name: "bash", Args: `{"command":"ls","wait_seconds":3}`}, {Name: "bash_kill", Args: `{"id":"1.1"}`},
	} {
		a := Dialect{}.Read(Dialect{}.Write(c), tools)
		if len(a.Calls) != 1 || a.Calls[0].Name != c.Name || strings.ReplaceAll(a.Calls[0].Args, `\n"`, `"`) != c.Args {
			t.Errorf("Write(%+v) is read as %+v", c, a.Calls)
		}
	}
}

func TestInstructionsNameWhatThereIs(t *testing.T) {
	text := Dialect{Start: "BEGIN", End: "END"}.Instructions(tools)
	for _, want := range []string{"\nBEGIN\nCOMMANDS\nEND\n", "- Runs commands with bash.\n", "agent2_wait SECONDS", "\nagent2_call NAME ", "\nbash_kill: Ends a command.\n{\"type\""} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := (Dialect{}).Instructions(tools[:1]); strings.Contains(text, "agent2_call") || !strings.Contains(text, DefaultStart) {
		t.Errorf("with bash alone:\n%s", text)
	}
}

func TestOpens(t *testing.T) {
	for line, want := range map[string][2]bool{
		"agent2_script_start": {true, true}, "agent2": {false, true}, "": {false, true}, "  ": {false, true}, "```bash": {true, true},
		"``": {false, true}, "```go": {false, false}, "I run it": {false, false}, "agent2_script_start.": {false, false},
	} {
		if got := [2]bool{Dialect{}.Opens(line, true), Dialect{}.Opens(line, false)}; got != want {
			t.Errorf("Opens(%q) = %v, want %v", line, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"a\nS\nls\nE\nb", "```bash\nS\nls\nE\n```", "S\nagent2_call x {\nE", "```sh\nls", "E\nS", "S\nagent2_wait 1e9\nE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := Dialect{Start: "S", End: "E"}
		a := d.Read(text, tools)
		if a.Text+a.Said+a.Ignored != text || len(a.Calls) == 0 && a.Text != text {
			t.Errorf("Read(%q) = %+v", text, a)
		}
		for _, c := range a.Calls {
			if c.Name == Tool && !json.Valid([]byte(c.Args)) {
				t.Errorf("Read(%q): %s", text, c.Args)
			}
		}
		d.Results(a.Said, a.Ignored, []agent.ToolResult{{Name: Tool}})
	})
}
