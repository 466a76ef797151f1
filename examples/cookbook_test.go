package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A recipe is a copy of a folder of the cookbook whose models are the scripts of its
// tests; everything else is as a person has it. What testdata/bin has is found before the
// programs of this machine.
type recipe struct {
	dir, home string
	env       []string
}

// cook copies a recipe. The home folder has an empty git repository, project.
func cook(t *testing.T, name string) *recipe {
	t.Helper()
	r := &recipe{dir: filepath.Join(t.TempDir(), name), home: t.TempDir()}
	if err := os.CopyFS(r.dir, os.DirFS("cookbook/"+name)); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"HOME=" + r.home, "PATH=" + filepath.Join(r.dir, "testdata/bin") + ":" + agents.searchPath(), "GIT_EDITOR=true"}
	tests, err := filepath.Glob(filepath.Join(r.dir, "*.agenttest.json"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%s has no test (%v)", name, err)
	}
	for _, test := range tests {
		r.script(t, test)
	}
	r.sh(t, `git init -q -b main "$HOME/project"`)
	return r
}

// script gives the agents of a test file its scripts as models.
func (r *recipe) script(t *testing.T, test string) {
	t.Helper()
	var file struct {
		AgentFile string
		Models    map[string]json.RawMessage
	}
	parse(t, test, &file)
	if file.AgentFile == "" {
		file.AgentFile = "agent.json"
	}
	for slug, script := range file.Models {
		name := file.AgentFile
		if len(file.Models) > 1 && slug != "lead" {
			name = slug + ".json"
		}
		var agent map[string]any
		parse(t, filepath.Join(r.dir, name), &agent)
		contents := agent["contents"].(map[string]any)
		if contents["slug"] != slug || contents["modelName"] == nil {
			t.Fatalf("%s is not the agent %s with a model", name, slug)
		}
		for _, key := range []string{"modelUrl", "modelName", "apiKeyId", "apiKeyEnv"} {
			delete(contents, key)
		}
		contents["flavor"], contents["script"] = "scripted", name+".script"
		text, err := json.Marshal(agent)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(r.dir, name), string(text), 0o644)
		writeFile(t, filepath.Join(r.dir, name+".script"), string(script), 0o644)
	}
}

func parse(t *testing.T, file string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(readFile(t, file)), to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// sh runs a command line in the recipe's folder. It must succeed.
func (r *recipe) sh(t *testing.T, line string) string {
	t.Helper()
	got := agents.run(t, command{dir: r.dir, env: r.env, args: []string{"sh", "-eu", "-c", line}})
	if got.code != 0 {
		t.Fatalf("%s\nexit code %d\n%s%s", line, got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

// follow runs the commands of the README from top to bottom and returns what they print.
func (r *recipe) follow(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	for _, m := range regexp.MustCompile("(?ms)^```shell\n(.*?)^```$").FindAllStringSubmatch(readFile(t, filepath.Join(r.dir, "README.md")), -1) {
		lines.WriteString(m[1])
	}
	if lines.Len() == 0 {
		t.Fatal("the README has no commands")
	}
	return r.sh(t, lines.String())
}

func (r *recipe) read(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, strings.Replace(name, "~", r.home, 1))
}

// TestCookbook does what the README of each recipe says.
func TestCookbook(t *testing.T) {
	tests := []struct {
		name  string
		needs []string
		// before prepares the home folder.
		before string
		// want are regular expressions, found in what the commands print.
		want  []string
		check func(*testing.T, *recipe)
	}{
		{
			name: "commit-hook", needs: []string{"git"},
			before: `cd ~/project; git commit -q --allow-empty -m "docs: begin"; echo Hello >greeting.txt`,
			check: func(t *testing.T, r *recipe) {
				const message = "cd ~/project; git log -n 1 --format=%B"
				if got := r.sh(t, message); got != "docs: add greeting.txt\n\n" {
					t.Errorf("the message is %q", got)
				}
				if got := r.sh(t, `cd ~/project; echo 2 >>greeting.txt; git commit -q -a -m own; `+message); got != "own\n\n" {
					t.Errorf("the message of a commit with -m is %q", got)
				}
				// A commit does not depend on the agent: here it cannot start.
				got := r.sh(t, `rm ~/commit-hook/agent.json; cd ~/project; echo 3 >>greeting.txt; GIT_EDITOR="echo mine >" git commit -q -a; `+message)
				if got != "mine\n\n" {
					t.Errorf("without an agent the message is %q", got)
				}
			},
		},
		{
			name: "pull-request-review", needs: []string{"git", "jq"},
			before: `cd ~/project; printf 'package shop\n\nfunc old() {}\n\nfunc sell() {\n\told()\n}\n' >shop.go; git add .; git commit -q -m begin
				git checkout -q -b change; sed 's/func old/func pay/' shop.go >new; mv new shop.go; git commit -q -a -m rename`,
			want: []string{`^::error file=main\.go,line=6::calls what is gone%0Aold\(\)\nexit code 1\n$`},
			check: func(t *testing.T, r *recipe) {
				step := regexp.MustCompile(`(?m)^      - run: (\.github/.*)$`).FindStringSubmatch(r.read(t, "~/project/.github/workflows/review.yml"))
				if step == nil {
					t.Fatal("the workflow does not run the review")
				}
				if got := r.sh(t, `cd ~/project; BASE=main; `+step[1]+` || echo "exit code $?"`); !strings.HasSuffix(got, "exit code 1\n") {
					t.Errorf("the job prints %q", got)
				}
				if got := r.sh(t, `cd ~/project; .github/review/review nowhere || echo "exit code $?"`); got != "exit code 2\n" {
					t.Errorf("without a base it prints %q", got)
				}
			},
		},
		{name: "log-triage", want: []string{`^nginx\.service, 5 restarts: Address already in use\.`}},
		{
			name: "local-coder", before: `cp testdata/project/* ~/project/`,
			want: []string{`adds now\. Outside: error: (?s:.*)sandbox: write to \S*outside\.txt(?s:.*)\nok\n$`},
			check: func(t *testing.T, r *recipe) {
				if _, err := os.Stat(filepath.Join(r.home, "outside.txt")); err == nil {
					t.Error("the sandbox let a tool write outside the folder")
				}
			},
		},
		{
			name: "many-files", needs: []string{"jq", "xargs"}, want: []string{`^invoices/2026-002\.txt\n$`},
			check: func(t *testing.T, r *recipe) {
				r.follow(t) // nothing is done twice
				got := r.read(t, filepath.Join(r.dir, "figures.jsonl"))
				line := regexp.MustCompile(`(?m)^{"file":"invoices/2026-003 \(copy\)\.txt","number":"2026-003","total":8(\.00)?,"agrees":true}$`)
				if strings.Count(got, "\n") != 3 || !line.MatchString(got) {
					t.Errorf("figures.jsonl has\n%s", got)
				}
			},
		},
		{
			name: "sql-analyst", needs: []string{"sqlite3"},
			want: []string{`^country,total\nDE,99\.0\nAT,60\.0\n`, `A delete: error: (?s:.*)readonly`, `A command: error: (?s:.*)cannot run \.shell in safe mode`},
		},
		{
			name: "nightly-digest", needs: []string{"git"},
			before: `cd ~/project; git commit -q --allow-empty -m "Sell hammers"`,
			want:   []string{`^## Changes\n\nproject [0-9a-f]+ Ann: Sell hammers\n$`},
			check:  cronRuns,
		},
		{
			name: "in-editors", before: `echo '// SPDX-License-Identifier: MIT' >~/project/main.c`,
			check: editorsCall,
		},
		{
			name: "kubectl-readonly", want: []string{`panic: DATABASE_URL is not set`, `a person changes the cluster(?s:.*)no secrets, and no other cluster`},
			check: func(t *testing.T, r *recipe) {
				r.env = append(r.env, "KUBECTL_CALLS="+r.home+"/calls")
				r.follow(t)
				if got := r.read(t, "~/calls"); strings.Contains(got, "delete") || strings.Contains(got, "secret") || !strings.Contains(got, "kubectl logs --tail=20 web\n") {
					t.Errorf("kubectl was called:\n%s", got)
				}
			},
		},
		{
			name: "compare-models", needs: []string{"jq"},
			want: []string{`^agent\.json\t2\t\d+\t\S+\tIt was sent on 2026-11-09\. .*\nmini\.json\t2\t\d+\t\S+\t1042,sent,2026-11-09\n$`},
			check: func(t *testing.T, r *recipe) {
				r.env = append(r.env, "ORDER_CALLS="+r.home+"/calls")
				r.follow(t)
				if got := r.read(t, "~/calls"); got != "--number=1042\n" {
					t.Errorf("the tool was called with %q, want one call", got)
				}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			needs(t, test.needs...)
			r := cook(t, test.name)
			if test.before != "" {
				r.sh(t, test.before)
			}
			got := r.follow(t)
			for _, want := range test.want {
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("the commands of the README print\n%s\nwant %s", got, want)
				}
			}
			if test.check != nil {
				test.check(t, r)
			}
			own := agents.run(t, command{env: r.env, args: []string{"agents", "test", "examples/cookbook/" + test.name}})
			if own.code != 0 {
				t.Errorf("agents test: exit code %d\n%s%s", own.code, own.stdout, own.stderr)
			}
		})
	}
}

// cronRuns does with the table what cron does: its own variables and no other.
func cronRuns(t *testing.T, r *recipe) {
	table := r.read(t, "~/crontab")
	job := regexp.MustCompile(`(?m)^[\d*]+ [\d*]+ [\d*]+ [\d*]+ [\d*-]+ (.+)$`).FindStringSubmatch(table)
	path := regexp.MustCompile(`(?m)^PATH=(.+)$`).FindStringSubmatch(table)
	if job == nil || path == nil {
		t.Fatalf("the table is\n%s", table)
	}
	r.sh(t, `rm ~/nightly-digest/digests/*`)
	cron := fmt.Sprintf("env -i HOME=%s PATH=%s:%s sh -c '%s'; cat ~/nightly-digest/digests/*.md", r.home, filepath.Join(agents.dir, "bin"), path[1], job[1])
	if got := r.sh(t, cron); !strings.Contains(got, "Sell hammers") {
		t.Errorf("cron's digest is %q", got)
	}
	// Where something fails, cron mails it, and no half digest is left.
	r.sh(t, `echo /nowhere >>~/nightly-digest/repositories; rm ~/nightly-digest/digests/*`)
	got := agents.run(t, command{dir: r.home, env: r.env, args: []string{"nightly-digest/digest"}})
	if files, _ := filepath.Glob(filepath.Join(r.home, "nightly-digest/digests/*.md")); got.code == 0 || got.stderr == "" || len(files) > 0 {
		t.Errorf("with a folder that is missing: exit code %d, %q, files %q", got.code, got.stderr, files)
	}
}

// An editorFile has the servers of an editor's settings, in the forms of three editors.
type editorFile struct {
	McpServers, Servers map[string]serverConfig
	ContextServers      map[string]serverConfig `json:"context_servers"`
}

type serverConfig struct {
	Command string
	Args    []string
}

func editorConfig(t *testing.T, text string) editorFile {
	t.Helper()
	var f editorFile
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// editorsCall starts the servers of the recipe's configurations and of the manual's as the
// editors do, and calls the agent.
func editorsCall(t *testing.T, r *recipe) {
	claude := r.read(t, "~/project/.mcp.json")
	zed := r.sh(t, `sed "s|/home/me|$HOME|" zed-settings.json`)
	servers := map[string]serverConfig{"Claude Code": editorConfig(t, claude).McpServers["licences"], "Zed": editorConfig(t, zed).ContextServers["licences"]}
	// Those to paste from the manual, with the recipe's agent.
	manual := strings.ReplaceAll(readFile(t, "../docs/mcp.md"), "/path/to/agent.json", r.home+"/in-editors/agent.json")
	pasted := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(manual, 3)
	servers["Claude Desktop, manual"] = editorConfig(t, pasted[0][1]).McpServers["reviewer"]
	servers["Zed, manual"] = editorConfig(t, pasted[1][1]).ContextServers["reviewer"]
	servers["VS Code, manual"] = editorConfig(t, pasted[2][1]).Servers["reviewer"]
	for name, s := range servers {
		inProject := func(ctx context.Context, program string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, "/usr/bin/env", append([]string{program}, args...)...)
			cmd.Dir, cmd.Env = filepath.Join(r.home, "project"), append(agents.environ[:len(agents.environ):len(agents.environ)], r.env...)
			return cmd, nil
		}
		c := client.NewClient(transport.NewStdioWithOptions(s.Command, nil, s.Args, transport.WithCommandFunc(inProject)))
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "licences", map[string]any{"prompt": "Which licences are there?"}
		got, err := c.CallTool(t.Context(), call)
		if err != nil || got.IsError || len(got.Content) == 0 || !strings.HasPrefix(mcp.GetTextFromContent(got.Content[0]), "These: main.c: MIT") {
			t.Errorf("%s gets %+v (%v)", name, got, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCookbookMCPServers has servers of its own in the place of GitHub's and Playwright's.
func TestCookbookMCPServers(t *testing.T) {
	t.Parallel()
	r := cook(t, "mcp-servers")
	s := server.NewMCPServer("github", "1", server.WithToolCapabilities(true))
	var arguments any
	issue := mcp.NewTool("issue_read", mcp.WithString("method"), mcp.WithString("owner"), mcp.WithString("repo"), mcp.WithNumber("issue_number"))
	s.AddTool(issue, func(_ context.Context, call mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arguments = call.Params.Arguments
		return mcp.NewToolResultText("https://shop.example/cart shows a price of NaN"), nil
	})
	for _, name := range []string{"list_issues", "search_issues", "create_issue"} {
		s.AddTool(mcp.NewTool(name), nil)
	}
	handler := server.NewStreamableHTTPServer(s)
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/mcp/readonly" || req.Header.Get("Authorization") != "Bearer github_pat_…" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, req)
	}))
	defer github.Close()
	for _, name := range []string{"agent.json", "agents-exe.keys.example"} {
		text := strings.ReplaceAll(readFile(t, filepath.Join(r.dir, name)), "https://api.githubcopilot.com", github.URL)
		text = strings.ReplaceAll(text, "api.githubcopilot.com", strings.TrimPrefix(github.URL, "http://"))
		writeFile(t, filepath.Join(r.dir, name), text, 0o644)
	}
	got := r.follow(t)
	for _, want := range []string{"mcp_github_issue_read", "mcp_playwright_browser_navigate", "\nYes: - text: NaN EUR\n7: yes\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the commands of the README print\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "create_issue") {
		t.Errorf("a tool that the file does not name is offered:\n%s", got)
	}
	if text, err := json.Marshal(arguments); err != nil || !bytes.Contains(text, []byte(`"issue_number":7`)) {
		t.Errorf("GitHub's server got %s (%v)", text, err)
	}
	if own := agents.run(t, command{args: []string{"agents", "test", "examples/cookbook/mcp-servers"}}); own.code != 0 {
		t.Errorf("agents test: exit code %d\n%s%s", own.code, own.stdout, own.stderr)
	}
}

// testTeam runs the recipe three-containers. TestContainers calls it, which has images.
func testTeam(t *testing.T, e *engine) {
	r := cook(t, "three-containers")
	r.env = append(append(r.env, e.environ...), "BASE=localhost/agents-tools")
	if got := r.follow(t); !strings.HasSuffix(got, "We have to pay 1699.90: reports/payments.txt\nWe have to pay 1699.90.\n") {
		t.Errorf("the commands of the README print\n%s", got)
	}
	if got := agents.run(t, command{env: e.environ, args: []string{"agents", "test", "examples/cookbook/three-containers"}}); got.code != 0 {
		t.Errorf("agents test: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// TestCookbookIsListed compares docs/cookbook.md with the folders, and with the titles of
// their READMEs.
func TestCookbookIsListed(t *testing.T) {
	list := readFile(t, "../docs/cookbook.md")
	folders, err := filepath.Glob("cookbook/*/README.md")
	if err != nil || len(folders) != 12 {
		t.Errorf("there are %d recipes, want 12 (%v)", len(folders), err)
	}
	for _, readme := range folders {
		title, _, _ := strings.Cut(strings.TrimPrefix(readFile(t, readme), "# "), "\n")
		if !strings.Contains(list, "["+title+"](../examples/"+readme+")") {
			t.Errorf("docs/cookbook.md does not list %s as %q", readme, title)
		}
	}
}
