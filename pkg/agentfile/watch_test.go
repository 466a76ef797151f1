package agentfile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// toolScript is a tool that describes itself.
func toolScript(slug, more string) string {
	return fmt.Sprintf("#!/bin/sh\n%s\n[ \"$1\" = describe ] && echo '{\"slug\":%q,\"description\":\"d\",\"args\":[]}' && exit\necho \"$AGENTS_TREE\"\n", more, slug)
}

// offered are the names of the tools of a tree's root, and the errors of its toolsets.
func offered(t *testing.T, tree *agentfile.Tree) (names, errs []string, tools []agent.Tool) {
	t.Helper()
	for _, set := range tree.Root.Toolsets {
		list, err := set.Tools(t.Context())
		if err != nil {
			errs = append(errs, err.Error())
		}
		for _, tool := range list {
			names, tools = append(names, tool.Spec().Name), append(tools, tool)
		}
	}
	return names, errs, tools
}

func TestWatchedToolsAreThoseOfNow(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","watch":true,"toolDirectory":"tools",
 "sandbox":{"write":[".","tools"]},"builtinToolboxes":[{"tag":"ThinkToolbox"}]}}
-- tools/README.md --
nothing
`)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile("tools/"+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ(), Check: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(when, wantErr string, want ...string) []agent.Tool {
		t.Helper()
		names, errs, tools := offered(t, tree)
		if !slices.Equal(names, want) || wantErr == "" && len(errs) > 0 || !strings.Contains(strings.Join(errs, "\n"), wantErr) {
			t.Errorf("%s the tools are %v, %q, want %v, %q", when, names, errs, want, wantErr)
		}
		return tools
	}
	check("at first", "", "think")

	put("one", toolScript("one", ""))
	var wg sync.WaitGroup
	for range 3 { // several runs ask at the same time
		wg.Go(func() { tree.Root.Toolsets[1].Tools(t.Context()) })
	}
	wg.Wait()
	tools := check("with a new one", "", "think", "bash_one")
	if s, ok := agent.As[agent.Sandboxed](tools[1]); !ok || s.Sandbox() == "" {
		t.Error("a new tool has no sandbox")
	}
	res, err := tools[1].Call(t.Context(), &agent.Invocation{Call: agent.ToolCall{Args: "{}"}, Spec: tools[1].Spec()})
	if err != nil || !strings.Contains(res.Text(), "/tools") {
		t.Errorf("a new tool gets %q, %v, not the files that it must not write", res.Text(), err)
	}

	put("two", "#!/bin/sh\necho half")
	check("with a half written one", "left out: describe tools/two: ", "think", "bash_one")
	check("and later", "left out: describe tools/two: ", "think", "bash_one")
	put("two", toolScript("two", ""))
	check("when it is complete", "", "think", "bash_one", "bash_two")

	put("two", toolScript("one", ""))
	check("with two of one name", "one name, bash_one, and are left out", "think")
	if err := os.Remove("tools/two"); err != nil {
		t.Fatal(err)
	}
	check("without one of them", "", "think", "bash_one")
}

// TestWatchIgnoresWhatASandboxedToolCouldWrite: without namespaces nothing keeps a sandboxed
// tool from writing another one that has no sandbox, unless the folder is elsewhere.
func TestWatchIgnoresWhatASandboxedToolCouldWrite(t *testing.T) {
	for _, test := range []struct {
		sandbox string
		ignored bool
	}{{`"workspace"`, true}, {`{"write":["."]}`, true}, {`{"network":"none"}`, true}, {`{"write":["other"]}`, false}, {`{"write":[".","free","boxed"]}`, false}} {
		write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","watch":true,
 "bashToolboxes":[{"tag":"FileSystemDirectory","contents":{"path":"boxed","sandbox":`+test.sandbox+`}},{"tag":"FileSystemDirectory","contents":{"path":"free"}}]}}
-- free/README.md --
nothing
-- other/README.md --
nothing
-- boxed/README.md --
nothing
`)
		if err := os.WriteFile("boxed/one", []byte(toolScript("one", "")), 0o755); err != nil {
			t.Fatal(err)
		}
		tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("free/two", []byte(toolScript("two", "touch ran")), 0o755); err != nil {
			t.Fatal(err)
		}
		names, errs, _ := offered(t, tree)
		_, err = os.Stat("ran")
		if ignored := !slices.Contains(names, "bash_two"); ignored != test.ignored || (err != nil) != test.ignored || (len(errs) > 0) != test.ignored {
			t.Errorf("with the sandbox %s the tools are %v, %q, executed: %v; want the new one ignored: %v", test.sandbox, names, errs, err == nil, test.ignored)
		}
	}
}

func TestWatchedToolsInATrustedTree(t *testing.T) {
	write(t, script+`
-- agent.json --
{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","watch":true,"toolDirectory":"tools"}}
-- tools/README.md --
nothing
`)
	_, lock := agentfile.Survey("agent.json", agentfile.Options{})
	tree, err := agentfile.Load(t.Context(), "agent.json", agentfile.Options{Environ: os.Environ(), Same: agentfile.Same{Trusted: lock}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tools/one", []byte(toolScript("one", "echo >>ran")), 0o755); err != nil {
		t.Fatal(err)
	}
	names, errs, _ := offered(t, tree)
	if len(names) > 0 || len(errs) != 1 || !strings.HasSuffix(errs[0], "tools/one differs from what was trusted and is not loaded") {
		t.Errorf("the tools are %v, %q", names, errs)
	}
	if _, err := os.Stat("ran"); err == nil {
		t.Error("a tool that nobody trusted was executed")
	}
}
