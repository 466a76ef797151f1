package agentsexe

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// load returns the one tool of an agent file that has the toolbox, in a new folder with files.
func load(t *testing.T, toolbox string, files map[string][]byte, o agentfile.Options) agent.Tool {
	t.Helper()
	dir := t.TempDir()
	text := `{"tag":"OpenAIAgentDescription","contents":{"slug":"a","flavor":"scripted","script":"script.json","builtinToolboxes":[` + toolbox + `]}}`
	files["agent.json"], files["script.json"] = []byte(text), []byte(`{"rules":[{"answer":{"text":"x"}}]}`)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o.Environ = os.Environ()
	tree, err := agentfile.Load(t.Context(), filepath.Join(dir, "agent.json"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	for _, p := range tree.Problems {
		if p.Severity == agentfile.LeftOut {
			t.Fatal(p)
		}
	}
	for _, set := range tree.Root.Toolsets {
		tools, err := set.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(tools) > 0 {
			return tools[0]
		}
	}
	t.Fatalf("%s: no tool", toolbox)
	return nil
}

// The calls of the SystemToolbox, with sessions of the recorded ids. Those sessions are not in the
// repository, so only the shape of results is compared.
func TestSystemToolbox(t *testing.T) {
	r := open(t)
	c := newComparison(t)
	var some []byte
	r.sessions(t, false, func(_ string, data []byte) {
		if some == nil {
			some = data
		}
	})
	r.sessions(t, false, func(path string, data []byte) {
		for _, k := range calls(t, path, data, "system_") {
			folder := t.TempDir()
			id, _ := k.args["session_id"].(string)
			if err := session.Copy(session.Create(folder, session.Options{}), session.Rename(transcript.FromAgentsExe(some), cmp.Or(id, "s"))); err != nil {
				t.Fatal(err)
			}
			tool := load(t, `{"tag":"SystemToolbox","contents":{"Name":"sessions","Description":"","Capabilities":["list-sessions","search-sessions","read-session","get-session-stats"],"SessionIntrospectionIncludeToolOutputs":true}}`,
				map[string][]byte{}, agentfile.Options{Folders: agentfile.Folders{Sessions: []string{folder}}})
			result, err := tool.Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Args: k.text}})
			if err != nil {
				c.difference("fails", fmt.Sprintf("%s: %v", k.text, err))
				continue
			}
			c.shape(k.args["capability"].(string), decode(k.result), decode(result.Text()))
		}
	})
	c.report(systemDifferences)
}

// shape compares which fields there are.
func (c *comparison) shape(path string, recorded, ours map[string]any) {
	for key, value := range recorded {
		o, ok := ours[key]
		list, _ := value.([]any)
		inner, _ := value.(map[string]any)
		if !ok {
			c.difference(path+"."+key+" is missing", fmt.Sprint(value))
			continue
		}
		if list, ok := o.([]any); ok && len(list) > 0 {
			o = list[0]
		}
		if len(list) > 0 {
			inner, _ = list[0].(map[string]any)
		}
		if o, _ := o.(map[string]any); inner != nil {
			c.shape(path+"."+key, inner, o)
			continue
		}
		c.counts[path+"."+key]++
	}
}

const isConstant = "it is always the same, or the id or query of the call"

const isMeasured = "it is another one in each call, which hides that a result is repeated"

var systemDifferences = map[string]string{
	"get-session-stats.data.note is missing":                 isConstant,
	"get-session-stats.data.scope is missing":                isConstant,
	"get-session-stats.executionTime is missing":             isMeasured,
	"read-session.data.access is missing":                    isConstant,
	"read-session.data.conversationId is missing":            isConstant,
	"read-session.data.format is missing":                    isConstant,
	"read-session.data.scope is missing":                     isConstant,
	"read-session.executionTime is missing":                  isMeasured,
	"search-sessions.data.results.conversationId is missing": isConstant,
	"search-sessions.data.results.matchType is missing":      isConstant,
	"search-sessions.data.scope is missing":                  isConstant,
	"search-sessions.executionTime is missing":               isMeasured,
}

// The statements of each session, in their order, on the version of the database with which most
// results are the recorded ones. Where its rows are others, only the columns are compared.
func TestSqliteToolbox(t *testing.T) {
	r := open(t)
	c := newComparison(t)
	program := filepath.Join(t.TempDir(), "agents-toolbox")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/agents-exe/agents/cmd/agents-toolbox").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	o := agentfile.Options{Companion: func(string) (string, error) { return program, nil }}
	r.sessions(t, false, func(path string, data []byte) {
		list := calls(t, path, data, "sqlite_")
		if len(list) == 0 {
			return
		}
		var best *comparison
		for _, id := range r.versions["resources/documenter-knowledge.db"] {
			db := r.blob(t, id)
			if db == nil {
				continue
			}
			tool := load(t, `{"tag":"SqliteToolbox","contents":{"Name":"knowledge_store","Description":"","Versioning":{"tag":"SqliteReadWrite","path":"k.db"}}}`, map[string][]byte{"k.db": db}, o)
			one := newComparison(t)
			for _, k := range list {
				one.statement(t, tool, k)
			}
			if best == nil || one.counts["same result"]+one.counts["fails too"] > best.counts["same result"]+best.counts["fails too"] {
				best = one
			}
		}
		for what, n := range best.counts {
			c.counts[what] += n
		}
		for what, n := range best.differ {
			c.differ[what] += n
			c.example[what] = best.example[what]
		}
	})
	c.report(sqliteDifferences)
}

func (c *comparison) statement(t *testing.T, tool agent.Tool, k call) {
	t.Helper()
	result, err := tool.Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Name: tool.Spec().Name, Args: k.text}})
	recorded := decode(k.result)
	failure, failed := recorded["error"].(string)
	if strings.HasPrefix(k.result, "SQLite tool error") {
		failure, failed = k.result, true
	}
	switch {
	case failed && err != nil:
		c.counts["fails too"]++
		return
	case failed || err != nil:
		c.difference("one of them fails", fmt.Sprintf("%.300s: %v\n%s; recorded %.300s", k.text, err, result.Text(), failure+k.result))
		return
	}
	ours := decode(result.Text())
	same := len(fields("", recorded["rows"], ours["rows"])) == 0
	if rows, ok := ours["rows"].([]any); ok && !same {
		recorded["rows"], recorded["rowCount"] = ours["rows"], float64(len(rows))
	}
	if _, ok := ours["executionTime"]; ok {
		delete(recorded, "executionTime")
	}
	diffs := fields("", recorded, ours)
	for d, example := range diffs {
		c.difference(d, fmt.Sprintf("%s %.200s", example, k.text))
	}
	switch {
	case len(diffs) == 0 && same:
		c.counts["same result"]++
	case len(diffs) == 0:
		c.counts["same columns; the rows of that day are not in the repository"]++
	}
}

var sqliteDifferences = map[string]string{}
