package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// A randomNode is an agent of a random tree. Each is asked once in each run of its
// caller.
type randomNode struct {
	slug     string
	turns    int // answers with calls of all below, before the last
	process  bool
	runner   []string    // that starts it in namespaces of its own; nil is none
	budget   agent.Money // 0 is none
	children []*randomNode
}

// isolation is a command that runs another in namespaces of its own, as a container does;
// nil where that does not work.
var isolation = sync.OnceValue(func() []string {
	command := []string{"unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"}
	if exec.Command(command[0], append(command[1:], "true")...).Run() != nil {
		return nil
	}
	return command
})

func randomTree(r *rand.Rand, slug string, depth int) *randomNode {
	n := &randomNode{slug: slug, turns: 1 + r.IntN(2), process: r.IntN(2) == 0}
	if n.process && len(isolation()) > 0 && r.IntN(3) == 0 {
		n.runner = isolation()
	}
	if r.IntN(3) == 0 {
		n.budget = agent.Money(1+r.Int64N(6)) * agent.Dollar / 1000
	}
	if depth > 0 {
		for i := range r.IntN(3) {
			n.children = append(n.children, randomTree(r, fmt.Sprintf("%s_%d", slug, i), depth-1))
		}
	}
	return n
}

// wideTree has a budget for two answers and four agents, each in a process of its own,
// that ask for one at the same time.
func wideTree() *randomNode {
	n := &randomNode{slug: "n", turns: 2, budget: 15 * agent.Dollar / 10_000}
	for i := range 4 {
		n.children = append(n.children, &randomNode{slug: fmt.Sprintf("n_%d", i), turns: 1, process: true})
	}
	return n
}

// containerTree has an agent in a container, with one below it, and one in a process. The
// first two can spend the budget of the root.
func containerTree(runner []string) *randomNode {
	below := &randomNode{slug: "n_0_0", turns: 1}
	return &randomNode{slug: "n", turns: 2, budget: 2 * agent.Dollar / 1000, children: []*randomNode{
		{slug: "n_0", turns: 2, process: true, runner: runner, children: []*randomNode{below}},
		{slug: "n_1", turns: 1, process: true},
	}}
}

// files writes the agent files of n and of all below it. A child is a sub-agent of the
// same process, or a wrapper that starts one.
func (n *randomNode) files(files map[string]string, dir, url string) {
	var extra []string
	for _, c := range n.children {
		if c.runner != nil {
			runner, _ := json.Marshal(c.runner) // strings always encode
			extra = append(extra, fmt.Sprintf(`{"slug":%q,"path":%q,"runner":%s}`, c.slug, filepath.Join(dir, c.slug, "agent.json"), runner))
		} else if c.process {
			files[n.slug+"/tools/"+c.slug] = fmt.Sprintf("#!/bin/sh\nexec \"$TEST_AGENTS\" --agent-file \"${0%%/*}/../../%s/agent.json\" \"$@\"\n", c.slug)
		} else {
			extra = append(extra, fmt.Sprintf(`{"slug":%q,"path":"../%s/agent.json"}`, c.slug, c.slug))
		}
		c.files(files, dir, url)
	}
	budget := ""
	if n.budget > 0 {
		budget = fmt.Sprintf(`,"budget":{"usd":%s}`, n.budget)
	}
	files[n.slug+"/tools/README.md"] = "the wrappers of agents in processes of their own\n"
	files[n.slug+"/agent.json"] = fmt.Sprintf(`{"tag":"OpenAIAgentDescription","contents":{"slug":%q,"announce":"a","flavor":"openai-compatible","modelUrl":%q,"modelName":%q,"toolDirectory":"tools","extraAgents":[%s],"loopLimit":false%s}}`,
		n.slug, url, n.slug, strings.Join(extra, ","), budget)
}

func (n *randomNode) find(slug string) *randomNode {
	if n.slug == slug {
		return n
	}
	for _, c := range n.children {
		if f := c.find(slug); f != nil {
			return f
		}
	}
	return nil
}

// A countingModel answers for all agents of a tree: it knows the agent by the model's
// name and the run by the prompt, which is the path of calls from the root.
type countingModel struct {
	tree *randomNode

	mu     sync.Mutex
	rand   *rand.Rand
	served map[string]agent.Money // by the path of the run
	most   agent.Money            // of one answer
	total  agent.Usage
}

func (m *countingModel) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	node, path, turn, closing := m.tree.find(body.Model), "", 0, false
	for _, msg := range body.Messages {
		switch msg.Role {
		case "user":
			if path == "" {
				path = contentText(msg.Content)
			} else {
				closing = true
			}
		case "assistant":
			turn++
		}
	}
	m.mu.Lock()
	cost := agent.Money(50+m.rand.Int64N(50)) * agent.Dollar / 100_000 // the estimate is twice the largest
	usage := agent.Usage{Requests: 1, InputTokens: 1 + m.rand.IntN(1000), OutputTokens: 1 + m.rand.IntN(100), Cost: cost, Priced: 1}
	m.served[path] += cost
	m.most = max(m.most, cost)
	m.total = m.total.Add(usage)
	m.mu.Unlock()
	message := map[string]any{"role": "assistant", "content": "done " + path}
	if turn < node.turns && len(node.children) > 0 && !closing {
		var calls []any
		for i, c := range node.children {
			name := "expert_" + c.slug
			if c.process && c.runner == nil {
				name = "bash_" + c.slug
			}
			args := fmt.Sprintf(`{"prompt":"%s/%d.%d"}`, path, turn, i)
			calls = append(calls, map[string]any{"id": fmt.Sprintf("c%d_%d", turn, i), "type": "function", "function": map[string]any{"name": name, "arguments": args}})
		}
		message = map[string]any{"role": "assistant", "tool_calls": calls}
	}
	time.Sleep(20 * time.Millisecond) // so that other agents ask meanwhile
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"model": body.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}},
		"usage":   map[string]any{"prompt_tokens": usage.InputTokens, "completion_tokens": usage.OutputTokens, "cost": cost}})
}

func contentText(content any) string {
	if s, ok := content.(string); ok {
		return strings.TrimSpace(s)
	}
	text := ""
	if list, ok := content.([]any); ok {
		for _, part := range list {
			if p, ok := part.(map[string]any); ok {
				s, _ := p["text"].(string)
				text += s
			}
		}
	}
	return strings.TrimSpace(text)
}

// below is what was served for a run and all below it.
func (m *countingModel) below(path string) agent.Money {
	var sum agent.Money
	for p, cost := range m.served {
		if p == path || strings.HasPrefix(p, path+"/") {
			sum += cost
		}
	}
	return sum
}

// TestBudgetsAndCostsOfRandomTrees runs random trees of agents, in one process, in
// several and in a container, against a model server that counts what it serves: no run with all below it
// exceeds its budget by more than one answer, the root reports
// exactly what the server counted, and so does `session cost`; every journal replays.
func TestBudgetsAndCostsOfRandomTrees(t *testing.T) {
	if len(isolation()) == 0 {
		t.Log("unshare does not work here: no agent runs behind a runner")
	}
	spentBudgets := 0
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		base := agentsCommand(t, nil)
		tree := randomTree(r, "n", 3)
		for len(tree.children) == 0 {
			tree = randomTree(r, "n", 3)
		}
		switch seed {
		case 0:
			tree = wideTree()
		case 1:
			if c := newContainers(t, base.Dir); c != nil {
				tree = containerTree(c.runner())
			}
		}
		model := &countingModel{tree: tree, rand: r, served: map[string]agent.Money{}}
		server := httptest.NewServer(model)
		files := map[string]string{}
		tree.files(files, base.Dir, server.URL)
		writeFiles(t, base.Dir, files)
		if runRandomTree(t, seed, model, base) {
			spentBudgets++
		}
		server.Close()
	}
	if spentBudgets == 0 {
		t.Error("no budget was reached in any tree")
	}
}

func runRandomTree(t *testing.T, seed uint64, m *countingModel, base *exec.Cmd) (spent bool) {
	t.Helper()
	program := filepath.Join(base.Dir, "agents")
	if err := os.Symlink(base.Path, program); err != nil {
		t.Fatal(err)
	}
	sessions := filepath.Join(base.Dir, "sessions")
	agents := func(args ...string) ([]byte, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = base.Dir, append(base.Env, "TEST_AGENTS="+program, "PATH="+base.Dir+":"+os.Getenv("PATH"))
		return cmd.Output()
	}
	out, err := agents("run", "--quiet", "--output", "json", "--session-dir", sessions, "--agent-file", "n/agent.json", "-p", "r")
	var result struct {
		Outcome agent.Status `json:"outcome"`
		Usage   agent.Usage  `json:"usage"`
		Session string       `json:"session"`
	}
	if jsonErr := json.Unmarshal(out, &result); jsonErr != nil {
		t.Fatalf("tree %d: %v, %v\n%s\n%s", seed, jsonErr, err, out, stderrOf(err))
	}
	if c := m.tree.children[0]; slices.Contains(c.runner, "podman") && m.served["r/0.0"] == 0 {
		t.Errorf("tree %d: %s was not asked", seed, c.slug)
	}
	if result.Usage != m.total {
		t.Errorf("tree %d (%s): the root reports %+v, the server counted %+v", seed, result.Outcome, result.Usage, m.total)
	}
	for path := range m.served {
		node := m.tree
		for _, step := range strings.Split(path, "/")[1:] {
			var turn, i int
			if _, err := fmt.Sscanf(step, "%d.%d", &turn, &i); err != nil {
				t.Fatalf("tree %d: path %q: %v", seed, path, err)
			}
			node = node.children[i]
		}
		if node.budget == 0 {
			continue
		}
		if got := m.below(path); got > node.budget+m.most {
			t.Errorf("tree %d: run %s of %s took %s of its budget of %s", seed, path, node.slug, got, node.budget)
		} else if got >= node.budget {
			spent = true
		}
	}
	p, stdout, stderr := testProgramHere()
	if err := root(p).Run(t.Context(), []string{"agents", "session", "cost", result.Session, "--session-dir", sessions, "--json"}); err != nil {
		t.Fatalf("tree %d: %v\n%s", seed, err, stderr)
	}
	checkCosts(t, seed, []byte(stdout.String()), m.total)
	if list, err := session.List(session.Filter{}, sessions); err != nil || len(list) != 1 {
		t.Errorf("tree %d: sessions %v, %v", seed, list, err)
	}
	again, replayErr := agents("replay", result.Session, "--session-dir", sessions, "--quiet", "--output", "json")
	var replayed struct {
		Outcome agent.Status `json:"outcome"`
	}
	if err := json.Unmarshal(again, &replayed); err != nil || replayed.Outcome != result.Outcome {
		t.Errorf("tree %d: the replay ends with %q, not %q: %v\n%s", seed, replayed.Outcome, result.Outcome, replayErr, stderrOf(replayErr))
	}
	return spent
}

// checkCosts adds up the nodes of `session cost --json`.
func checkCosts(t *testing.T, seed uint64, data []byte, want agent.Usage) {
	t.Helper()
	type node struct {
		Requests int          `json:"requests"`
		Cost     *agent.Money `json:"cost"`
		Children []node       `json:"children"`
	}
	var root node
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatalf("tree %d: %v\n%s", seed, err, data)
	}
	requests, cost := 0, agent.Money(0)
	var add func(n node)
	add = func(n node) {
		requests += n.Requests
		if n.Cost != nil {
			cost += *n.Cost
		}
		for _, c := range n.Children {
			add(c)
		}
	}
	add(root)
	if requests != want.Requests || cost != want.Cost {
		t.Errorf("tree %d: session cost adds up to %d requests and %s, the server counted %d and %s", seed, requests, cost, want.Requests, want.Cost)
	}
}
