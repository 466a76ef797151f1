package developer_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// TestRulesSeeEveryNameOfThePath: a call reads and writes the path that rules have judged,
// whatever name of it the call uses, and also if the call has a second one.
func TestRulesSeeEveryNameOfThePath(t *testing.T) {
	const pub, secret = "pub/a", "secret/a"
	for name, rule := range map[string]string{
		"deny": `{"verdict":"deny","args":{"/path":{"inside":"secret"}}}`, "deny by the alias": `{"verdict":"deny","args":{"/file_path":{"inside":"secret"}}}`,
		"ask": `{"verdict":"ask","args":{"/path":{"glob":"**secret**"}}}`, "allow": `{"verdict":"allow","args":{"/path":{"inside":"pub"}}}`,
	} {
		for _, capability := range developer.Capabilities {
			for _, paths := range []map[string]any{
				{"path": secret}, {"file_path": secret}, {"tool_path": secret}, {"PATH": secret}, {"File_Path": secret}, {"path": pub, "Path": secret},
				{"path": pub, "file_path": secret}, {"path": pub, "tool_path": secret}, {"path": "", "file_path": secret}, {"path": nil, "tool_path": secret},
			} {
				var checked string
				b := open(t, map[string]string{pub: "x\n", secret: "x sesame\n"}, func(_ string, o *developer.Options) {
					o.Capabilities = developer.Capabilities
					o.Text = func(string, string) string { return "template" }
					o.Check = func(_ context.Context, file string, _ bool) developer.Checked {
						checked = file
						return developer.Checked{}
					}
				})
				r, err := policy.ParseRule([]byte(rule), policy.Place{Source: "rule", Dir: b.dir})
				if err != nil {
					t.Fatal(err)
				}
				rights, err := policy.New(policy.Set{Rules: []*policy.Rule{r}})
				if err != nil {
					t.Fatal(err)
				}
				args := map[string]any{"capability": capability, "ranges": "1", "contentBlocks": []string{"new"}, "old_text": "x", "new_text": "y", "pattern": "x", "force": true,
					"patch": "@@ -1 +1 @@\n-x sesame\n+y\n"}
				maps.Copy(args, paths)
				text, _ := json.Marshal(args)
				tool := schema.Checked(b.tool)
				result, _ := (&runner.Runner{Agent: &agent.Agent{Rights: rights}}).Call(t.Context(), tool, string(text))
				if after, err := os.ReadFile(b.dir + "/" + secret); string(after) != "x sesame\n" || strings.Contains(result.Text(), "sesame") || strings.Contains(checked, "secret") || err != nil {
					t.Errorf("%s: call %s = %q, checks %q, file %q, %v", name, text, result.Text(), checked, after, err)
				}
			}
		}
	}
}

// TestAnAliasIsAPath: what agents-exe calls the path is the path, and its schema has one name.
func TestAnAliasIsAPath(t *testing.T) {
	b := open(t, map[string]string{"a": "one\n"}, nil)
	for alias := range b.tool.Spec().Aliases {
		for _, other := range []string{"", `,"path":null`, `,"path":""`, `,"path":"a"`} {
			result, err := (&runner.Runner{Agent: &agent.Agent{}}).Call(t.Context(), schema.Checked(b.tool), `{"capability":"read-file-range","`+alias+`":"a"`+other+`}`)
			if err != nil || !strings.Contains(result.Text(), "1\\tone") {
				t.Errorf("%s%s: %q, %v", alias, other, result.Text(), err)
			}
		}
		if strings.Contains(string(b.tool.Spec().Schema), alias) {
			t.Errorf("the schema has %s and another name of it", alias)
		}
	}
	if aliases := slices.Sorted(maps.Keys(b.tool.Spec().Aliases)); !slices.Equal(aliases, []string{"file_path", "tool_path"}) {
		t.Errorf("the aliases are %q", aliases)
	}
}

// TestAnEditSessionHasOnePath: a call that names another file cannot use it.
func TestAnEditSessionHasOnePath(t *testing.T) {
	b := open(t, map[string]string{"a": "one\n", "b": "two\n"}, nil)
	ref := b.call(map[string]any{"capability": "read-file-range", "path": "a"})["snapshotRef"]
	id := b.call(map[string]any{"capability": "write-file-range", "path": "a", "ranges": "1", "contentBlocks": []string{"new"}, "expected_snapshot_ref": ref, "commit": false})["sessionId"]
	for _, capability := range []string{"write-file-range", "read-file-range"} {
		b.refuses("is one of a, not of b", map[string]any{"capability": capability, "path": "b", "session_id": id, "commit": true})
	}
	b.has("a", "one\n")
	if got := b.call(map[string]any{"capability": "write-file-range", "path": b.dir + "/a", "session_id": id, "commit": true}); got["error"] != nil {
		t.Errorf("the path of the session is refused: %v", got)
	}
	b.has("a", "new\n")
}

// TestALinkThatIsSwappedInLeadsNowhere: a folder that becomes a link between the check and the use
// gives access to no file elsewhere.
func TestALinkThatIsSwappedInLeadsNowhere(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	work, folder, aside := filepath.Join(dir, "work"), filepath.Join(dir, "work", "s"), filepath.Join(dir, "aside")
	for _, err := range []error{os.MkdirAll(folder, 0o777), os.WriteFile(filepath.Join(folder, "f"), []byte("mine"), 0o666), os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() { // what fails does so because Write has made the folder
			_ = os.Rename(folder, aside)
			_ = os.Symlink(outside, folder)
			_ = os.RemoveAll(folder)
			_ = os.Rename(aside, folder)
		}
	}()
	files := developer.OpenFiles(developer.Options{Dir: work})
	for i := range 1000 {
		if content, _ := files.Read("s/f"); string(content) == "secret" {
			t.Error("a file outside was read")
			break
		}
		if i%20 == 0 {
			_ = files.Write("s/f", []byte("mine")) // fails while the link is there
		}
	}
	over.Store(true)
	<-ended
	if content, err := os.ReadFile(filepath.Join(outside, "f")); string(content) != "secret" {
		t.Errorf("the file outside has %q, %v", content, err)
	}
	if left, err := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("outside are %v, %v", left, err)
	}
}
