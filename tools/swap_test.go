package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// A fileCall is a call of a tool about a file, or a folder that has it.
type fileCall struct {
	tool   string
	args   args
	folder bool // the path is that of the folder
}

// of returns the path of the call about a folder, or the file f in it.
func (c fileCall) of(folder string) string {
	if c.folder {
		return folder
	}
	return folder + "/f"
}

var fileCalls = []fileCall{
	{"read_file", args{}, false}, {"grep", args{"pattern": "x"}, false}, {"grep", args{"pattern": "x"}, true}, {"list_files", args{}, true},
	{"write_file", args{"content": "written", "overwrite": true}, false}, {"edit_file", args{"old": "x", "new": "y"}, false},
	{"developer", args{"capability": "read-file-range", "ranges": "1-2"}, false}, {"developer", args{"capability": "search", "pattern": "x"}, false},
	{"developer", args{"capability": "search", "pattern": "x"}, true}, {"developer", args{"capability": "list-directory"}, true},
	{"developer", args{"capability": "edit-text", "old_text": "x", "new_text": "y"}, false},
}

// once is a model that makes one call and answers with its result.
type once agent.ToolCall

func (c once) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{agent.ToolCall(c)}}
	if last := req.Messages[len(req.Messages)-1]; len(last.Results) > 0 {
		m = agent.Message{Role: agent.RoleAssistant, Parts: last.Results[0].Parts}
	}
	return &agent.Response{Message: m}, nil
}

// judged makes a call under a rule; then is called between the verdict and the call.
func (b *box) judged(rule string, c fileCall, path string, then func()) string {
	b.t.Helper()
	r, err := policy.ParseRule([]byte(rule), policy.Place{Source: "rule", Dir: b.dir})
	if err != nil {
		b.t.Fatal(err)
	}
	rights, err := policy.New(policy.Set{Rules: []*policy.Rule{r}})
	if err != nil {
		b.t.Fatal(err)
	}
	tool := b.tools[c.tool]
	with := maps.Clone(c.args)
	with["path"] = path
	data, _ := json.Marshal(with)
	model := once{ID: "1", Name: tool.Spec().Name, Args: string(data)}
	runner := &runner.Runner{
		Agent: &agent.Agent{Slug: "a", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{tool}}, Rights: rights},
		Policy: func(context.Context, *agent.Invocation) agent.Verdict {
			then()
			return agent.Verdict{Decision: agent.Allow}
		}}
	out, err := runner.Run(b.t.Context(), agent.UserText("go"))
	if err != nil {
		b.t.Fatal(err)
	}
	return out.Message.Text()
}

// must fails the test for an error.
func (b *box) must(errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// swapBox has the folder pub, which the rules are about, with the file real/in/f and the link l
// to real, and beside it the folder other with a file in/f that no call may reach.
func swapBox(t *testing.T) *box {
	needs(t, "python3")
	b := newBox(t)
	files := developer.Open(developer.Options{Name: "d", Dir: b.dir})
	tools, err := files.Tools(t.Context())
	b.must(err, os.MkdirAll(b.path("pub/real/in"), 0o755), os.MkdirAll(b.path("other/in"), 0o755),
		os.WriteFile(b.path("pub/real/in/f"), []byte("mine x\n"), 0o644), os.WriteFile(b.path("other/in/f"), []byte("secret x\n"), 0o644),
		os.WriteFile(b.path("other/in/secret"), nil, 0o644), os.Symlink("real", b.path("pub/l")))
	b.tools["developer"] = tools[0]
	return b
}

// untouched checks that a result has nothing of other, and that nothing was written there.
func (b *box) untouched(what, result string) {
	b.t.Helper()
	if strings.Contains(result, "secret") {
		b.t.Errorf("%s returned what is outside: %s", what, result)
	}
	if got, err := os.ReadFile(b.path("other/in/f")); string(got) != "secret x\n" {
		b.t.Errorf("%s wrote outside: %q, %v", what, got, err)
	}
	if left, err := os.ReadDir(b.path("other/in")); len(left) != 2 {
		b.t.Errorf("%s left files outside: %v, %v", what, left, err)
	}
}

var insideRules = []string{`{"verdict":"allow","args":{"/path":{"inside":"pub"}}}`, `{"verdict":"deny","args":{"/path":{"inside":"other"}}}`}

// TestALinkThatIsSwappedAfterTheVerdictLeadsNowhere: what a call opens is what a rule has judged,
// whatever was put in the path meanwhile.
func TestALinkThatIsSwappedAfterTheVerdictLeadsNowhere(t *testing.T) {
	for name, tt := range map[string]struct {
		path string
		swap func(b *box)
	}{
		"nothing": {"pub/l/in", func(*box) {}},
		"a link":  {"pub/l/in", func(b *box) { b.must(os.Remove(b.path("pub/l")), os.Symlink("../other", b.path("pub/l"))) }},
		"a folder": {"pub/real/in", func(b *box) {
			b.must(os.Rename(b.path("pub/real"), b.path("old")), os.Symlink("../other", b.path("pub/real")))
		}},
		"where a link leads": {"pub/l/in", func(b *box) {
			b.must(os.Rename(b.path("pub/real"), b.path("old")), os.Symlink("../other", b.path("pub/real")))
		}},
		"the last folder": {"pub/./real/../real/in", func(b *box) {
			b.must(os.Rename(b.path("pub/real/in"), b.path("old")), os.Symlink("../../other/in", b.path("pub/real/in")))
		}},
		"the file": {"pub/real/in", func(b *box) {
			b.must(os.Remove(b.path("pub/real/in/f")), os.Symlink("../../../other/in/f", b.path("pub/real/in/f")))
		}},
		"a folder that is up": {"other/../pub/real/in", func(b *box) {
			b.must(os.Rename(b.path("pub"), b.path("old")), os.Symlink("other", b.path("pub")), os.Symlink(".", b.path("other/real")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, c := range fileCalls {
				for k, top := range []string{"", "/"} {
					b := swapBox(t)
					path := c.of(tt.path)
					if top != "" {
						path = b.dir + "/" + path
					}
					what := fmt.Sprintf("%s %v", c.tool, c.args)
					got := b.judged(insideRules[(i+k)%2], c, path, func() { tt.swap(b) })
					b.untouched(what, got)
					if name == "nothing" && (strings.Contains(got, "rror") || strings.Contains(got, "refused")) {
						t.Errorf("%s through a link = %s", what, got)
					}
				}
			}
		})
	}
}

// TestAPatchFollowsNoLinkEither, where a rule has judged the call: neither to read nor to write.
func TestAPatchFollowsNoLinkEither(t *testing.T) {
	for name, header := range map[string]string{"change": "--- pub/l/in/f\n+++ pub/l/in/f\n@@ -1 +1 @@\n-mine x\n+mine y\n",
		"create": "--- /dev/null\n+++ pub/l/in/new\n@@ -0,0 +1 @@\n+new\n", "delete": "--- pub/l/in/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-mine x\n"} {
		b := swapBox(t)
		tool := b.tools["patch"]
		data, _ := json.Marshal(args{"patch": header})
		inv := &agent.Invocation{Call: agent.ToolCall{ID: "1", Name: tool.Spec().Name, Args: string(data)}, Spec: tool.Spec(), Key: "test.1.0", NoLinks: true}
		if got, err := tool.Call(t.Context(), inv); err == nil || !strings.Contains(got.Text()+err.Error(), "pub/l") {
			t.Errorf("%s: %q, %v", name, got.Text(), err)
		}
		if got, err := os.ReadFile(b.path("pub/real/in/f")); string(got) != "mine x\n" || err != nil {
			t.Errorf("%s through a link: %q, %v", name, got, err)
		}
		inv.NoLinks = false
		if got, err := tool.Call(t.Context(), inv); err != nil {
			t.Errorf("%s without a rule: %q, %v", name, got.Text(), err)
		}
	}
}

// TestALinkThatIsSwappedDuringACallLeadsNowhere swaps a folder and a link all the time.
func TestALinkThatIsSwappedDuringACallLeadsNowhere(t *testing.T) {
	b := swapBox(t)
	real, aside := b.path("pub/real"), filepath.Join(b.dir, "aside")
	var over atomic.Bool
	ended := make(chan struct{})
	t.Cleanup(func() {
		over.Store(true)
		<-ended
	})
	go func() {
		defer close(ended)
		for !over.Load() {
			_ = os.Rename(real, aside)
			_ = os.Symlink("../other", real)
			_ = os.RemoveAll(real) // a call may have made it
			_ = os.Rename(aside, real)
		}
	}()
	for round := range 60 {
		for _, c := range fileCalls {
			if c.tool != "developer" && round > 3 { // a process each
				continue
			}
			b.untouched(fmt.Sprintf("%s %v", c.tool, c.args), b.judged(insideRules[round%2], c, c.of("pub/l/in"), func() {}))
		}
	}
}
