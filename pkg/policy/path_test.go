package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
)

// TestACallHasThePathsThatWereJudged: a path through a link is replaced by where it leads, and
// everything else stays as the model wrote it.
func TestACallHasThePathsThatWereJudged(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(top, "work")
	for _, err := range []error{os.MkdirAll(filepath.Join(work, "sub"), 0o755), os.Symlink("sub", filepath.Join(work, "l")), os.Symlink("sub/new", filepath.Join(work, "n")), os.Symlink("sub/a/b", filepath.Join(work, "d")), os.Symlink(work, filepath.Join(top, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	allow := fmt.Sprintf(`{"verdict":"allow","tool":"t","args":{"/path":{"inside":%q}}}`, work)
	deny := fmt.Sprintf(`{"verdict":"deny","tool":"t","args":{"/path":{"inside":%q}}}`, top+"/other")
	list := fmt.Sprintf(`{"verdict":"allow","tool":"t","args":{"/a/*/path":{"inside":%q}}}`, work)
	for _, tt := range []struct{ rule, args, want string }{
		{allow, `{"path": "sub/a"}`, ""},
		{allow, `{"path": "./sub/../sub/none/"}`, ""},
		{allow, `{"path": "l/a",  "n": 1.50}`, `{"path": "WORK/sub/a",  "n": 1.50}`},
		{allow, `{"path":"n"}`, `{"path":"WORK/sub/new"}`},
		{allow, `{"path":"d/../x"}`, `{"path":"WORK/sub/a/x"}`},
		{allow, `{"path":"TOP/link/a"}`, `{"path":"WORK/a"}`},
		{allow, `{"path":["l","sub","l"]}`, `{"path":["WORK/sub","sub","WORK/sub"]}`},
		{list, `{"a":[{"path":["l/<\u003e"]},{"path":"sub"}],"path":"l"}`, `{"a":[{"path":["WORK/sub/<>"]},{"path":"sub"}],"path":"l"}`},
		{deny, `{"path":"l/a"}`, `{"path":"WORK/sub/a"}`},
		{deny, `{"path":"sub/a"}`, ""},
	} {
		for _, dir := range []string{work, filepath.Join(top, "link")} { // a link above the working directory is none of the path
			full := strings.NewReplacer("WORK", work, "TOP", top).Replace
			inv := call("t", full(tt.args))
			inv.Dir = dir
			r := rights(t, policy.Never, tt.rule)
			v := r.Decide(inv)
			if v.Decision != agent.Allow || v.Args != full(tt.want) || !v.NoLinks {
				t.Errorf("%s: Decide(%s) = %+v, want the arguments %s", tt.rule, inv.Call.Args, v, full(tt.want))
				continue
			}
			if v.Args == "" {
				continue
			}
			again := call("t", v.Args)
			again.Dir = dir
			if v := r.Decide(again); v.Decision != agent.Allow || v.Args != "" || !v.NoLinks {
				t.Errorf("%s: Decide(%s) = %+v the second time", tt.rule, again.Call.Args, v)
			}
		}
	}
	inv := call("t", `{"path":"l"}`)
	inv.Dir = work
	if v := rights(t, policy.Never, `{"verdict":"allow","tool":"t","args":{"/path":{"glob":"*"}}}`).Decide(inv); v.Args != "" || v.NoLinks {
		t.Errorf("Decide without inside = %+v, want the arguments as they are", v)
	}
	inv.Remote = true
	if v := rights(t, policy.Never, deny).Decide(inv); v.Args != "" {
		t.Errorf("Decide of a call of another process = %+v, want the arguments as they are", v)
	}
}
