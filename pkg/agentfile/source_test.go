package agentfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// A fakeSource has one tool, which would execute a program.
type fakeSource struct {
	program   string
	protected []string
	closed    int
}

func (f *fakeSource) survey(s *surveyor, n *Node) {
	s.executed(KindProgram, f.program, s.environ(nil), n.workDir)
}

func (f *fakeSource) files() []string { return []string{f.program} }

func (f *fakeSource) open(_ *loader, n *Node) []agent.Tool {
	n.box("fake", nil)
	n.protected = append(n.protected, f)
	return []agent.Tool{&sampler{}} // any tool
}

func (f *fakeSource) Protect(paths []string) { f.protected = paths }

func (f *fakeSource) close() error { f.closed++; return nil }

// A kind of sources that is only added to the list of kinds is read, locked, protected, confined,
// opened and closed.
func TestAKindOfSourcesIsOneLineOfAList(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, file := filepath.Join(dir, "program.sh"), filepath.Join(dir, "agent.json")
	writeFile := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(program, "#!/bin/sh\n")
	writeFile(filepath.Join(dir, "script.json"), `{"rules":[{"when":{},"answer":{"text":"hi"}}]}`)
	writeFile(file, `{"tag":"OpenAIAgentDescription","contents":{"slug":"root","flavor":"scripted","script":"script.json","sandbox":{"network":"none"},"fake":"program.sh"}}`)
	fake := &fakeSource{}
	load := func(locked bool) (*Tree, error) {
		l := newLoader(Options{Same: Same{Locked: locked}, Sandbox: Sandboxing{Ladder: &sandbox.Ladder{}}})
		l.kinds = append(l.kinds, func(l *loader, n *Node) {
			n.File.Part("fake", &fake.program)
			fake.program, _ = l.resolve(n, n.File.at("fake"), fake.program, LeftOut)
			n.add(fake)
		})
		return l.load(t.Context(), file)
	}
	tree, err := load(false)
	if err != nil {
		t.Fatal(err)
	}
	n := tree.Nodes[0]
	if len(n.Tools) != 1 || n.Tools[0].Name != "sampler" {
		t.Errorf("the tools are %v, want that of the source", n.Tools)
	}
	if !slices.Contains(fake.protected, program) {
		t.Errorf("the protected files are %v, want %s among them", fake.protected, program)
	}
	if boxes := n.Sandboxes(); len(boxes) != 1 || !slices.Equal(boxes[0].Of, []string{"fake"}) || boxes[0].Enforced == "" {
		t.Errorf("the sandboxes are %+v, want that of the agent for fake", boxes)
	}
	lock, err := tree.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WriteLock(t.Context(), file, lock); err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil || fake.closed != 1 {
		t.Errorf("Close() = %v and closed the source %d times, want once", err, fake.closed)
	}
	if same, err := load(true); err != nil {
		t.Errorf("load the unchanged tree: %v", err)
	} else {
		same.Close()
	}
	writeFile(program, "#!/bin/sh\nexit 1\n")
	_, err = load(true)
	drift, ok := errors.AsType[*DriftError](err)
	if want := []string{"changed: program program.sh"}; !ok || !slices.Equal(drift.Changes, want) {
		t.Errorf("load a changed tree: %v, want %v", err, want)
	}
}
