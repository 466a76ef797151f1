//go:build unix

package realmcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A suite is a version of the conformance suite and its arguments.
type suite struct {
	name   string // in docs/mcp.md
	module string
	args   []string
}

// suites returns the conformance suites.
func suites() []suite {
	return []suite{
		{"0.1.16", "conformance", []string{"--suite", "all"}},
		{"2025-11-25", "conformance-preview", []string{"--requirements", "2025-11-25"}},
		{"2026-07-28", "conformance-preview", []string{"--requirements", "2026-07-28"}},
	}
}

// TestConformanceOfClient lets agents use the servers of the suite.
func TestConformanceOfClient(t *testing.T) {
	k := installed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			k.conformance(t, "client", s, "--command", self)
		})
	}
}

// conformance runs a suite for one side, and compares the failures with the table in
// docs/mcp.md.
func (k *installation) conformance(t *testing.T, side string, s suite, args ...string) {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command(k.node, slices.Concat([]string{k.module(s.module + "/dist/index.js"), side, "--output-dir", out}, s.args, args)...)
	cmd.Env = append(k.environ(t.TempDir()), binaryVariable+"="+k.agents)
	run := finish(t, cmd)
	known, err := knownFailures(side, s.name)
	if err != nil {
		t.Fatal(err)
	}
	names := summary.FindAllStringSubmatch(run.stdout, -1)
	if len(names) < 10 {
		t.Fatalf("the suite ran %d scenarios\n%s\n%s", len(names), tail(run.stdout), tail(run.stderr))
	}
	var passed int
	for _, name := range names {
		v, err := readVerdict(out, name[1])
		if err != nil {
			t.Fatal(err)
		}
		v.failed = slices.DeleteFunc(v.failed, func(c check) bool { return known.reason(name[1]+":"+c.ID) != "" })
		why := known.reason(name[1])
		switch {
		case v.passed() && why != "":
			t.Errorf("%s passes, but docs/mcp.md lists it as failing: %s", name[1], why)
		case !v.passed() && why == "":
			t.Errorf("%s: %d checks passed; the others:%s", name[1], v.succeeded, v.complaints())
		case v.passed():
			passed++
		}
	}
	for _, k := range known {
		if !k.used {
			t.Errorf("docs/mcp.md lists %s as failing, but there is no such scenario", k.pattern)
		}
	}
	t.Logf("%d of %d scenarios pass", passed, len(names))
}

// summary is a line about a scenario at the end of what the suite prints.
var summary = regexp.MustCompile(`(?m)^[✓✗] (\S+): \d+ passed, \d+ failed`)

// A check is one of a scenario.
type check struct{ ID, Status, Description, ErrorMessage string }

// A verdict is the result of a scenario's checks.
type verdict struct {
	succeeded int
	failed    []check
}

// passed reports whether there were checks, and neither failures nor warnings.
func (v *verdict) passed() bool { return v.succeeded > 0 && len(v.failed) == 0 }

func (v *verdict) complaints() string {
	var b strings.Builder
	for _, c := range v.failed {
		fmt.Fprintf(&b, "\n\t%s %s: %s: %s", c.Status, c.ID, c.Description, c.ErrorMessage)
	}
	return b.String()
}

// readVerdict reads the result of a scenario from the suite's folder.
func readVerdict(dir, scenario string) (*verdict, error) {
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(path.Dir(scenario)), "*", "checks.json"))
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile(`^(server-)?` + regexp.QuoteMeta(path.Base(scenario)) + `-\d{4}-\d\d-\d\dT[\d-]+Z$`)
	files = slices.DeleteFunc(files, func(file string) bool { return !named.MatchString(filepath.Base(filepath.Dir(file))) })
	if len(files) != 1 {
		return nil, fmt.Errorf("%d results of scenario %s in %s", len(files), scenario, dir)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	var checks []check
	if err := json.Unmarshal(text, &checks); err != nil {
		return nil, err
	}
	v := &verdict{}
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			v.succeeded++
		case c.Status == "WARNING" && c.ID == "client-sse-retry-timing":
			// It is 0.2 seconds late on a busy machine.
		case c.Status == "FAILURE", c.Status == "WARNING":
			v.failed = append(v.failed, c)
		}
	}
	return v, nil
}

// A known failure is a scenario, a pattern of scenarios, or one check of a scenario
// as SCENARIO:CHECK, that is in the table.
type known struct {
	pattern string
	but     []string
	why     string
	used    bool
}

type failures []*known

// reason returns why a scenario, or one check as SCENARIO:CHECK, is known to fail, or
// "".
func (f failures) reason(name string) string {
	for _, k := range f {
		same := strings.Contains(k.pattern, ":") == strings.Contains(name, ":")
		if ok, _ := path.Match(k.pattern, name); ok && same && !slices.Contains(k.but, name) {
			k.used = true
			return k.why
		}
	}
	return ""
}

// knownFailures reads the table of docs/mcp.md: its rows are the side, the suites,
// the scenarios in backquotes (except those after "but"), and the reason.
func knownFailures(side, suite string) (failures, error) {
	text, err := os.ReadFile("../../../docs/mcp.md")
	if err != nil {
		return nil, err
	}
	_, text2, found := strings.Cut(string(text), "\n| side | suite |")
	if !found {
		return nil, fmt.Errorf("docs/mcp.md has no table | side | suite |")
	}
	table, _, _ := strings.Cut(text2, "\n\n")
	list := map[string]*known{}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 4 || cells[0] != side || !slices.Contains(strings.Split(cells[1], ", "), suite) {
			continue
		}
		listed, but, _ := strings.Cut(cells[2], " but ")
		for _, name := range quoted.FindAllString(listed, -1) {
			k := &known{pattern: strings.Trim(name, "`"), why: cells[3]}
			for _, name := range quoted.FindAllString(but, -1) {
				k.but = append(k.but, strings.Trim(name, "`"))
			}
			list[k.pattern] = k
		}
	}
	return slices.Collect(maps.Values(list)), nil
}

var quoted = regexp.MustCompile("`[^`]+`")

// TestConformanceOfServer lets the suite use the tools of examples/mcp-conformance.
func TestConformanceOfServer(t *testing.T) {
	k := installed(t)
	dir := t.TempDir() // two of the tools change it
	if err := os.CopyFS(dir, os.DirFS("../../../examples/mcp-conformance")); err != nil {
		t.Fatal(err)
	}
	url := k.serve(t, dir, "--agent-file", "agent.json", "--expose", "tools", "--plain-names", "--watch", "--no-token", "--task-after", "700ms")
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			k.conformance(t, "server", s, "--url", url)
		})
	}
}

// serve starts `agents mcp-server` over HTTP in dir and returns its address.
func (k *installation) serve(t *testing.T, dir string, args ...string) (url string) {
	t.Helper()
	return k.launch(t, dir, "serving MCP at ", slices.Concat([]string{"mcp-server", "--http", "127.0.0.1:0"}, args)...)
}

// serveAgents starts `agents serve` and returns its address.
func (k *installation) serveAgents(t *testing.T, args ...string) (url string) {
	t.Helper()
	return k.launch(t, ".", "serving agents at ", slices.Concat([]string{"serve", "--listen", "127.0.0.1:0"}, args)...)
}

// launch starts the program as a server. Its first line is said and its address.
func (k *installation) launch(t *testing.T, dir, said string, args ...string) (url string) {
	t.Helper()
	env := k.environ(t.TempDir())
	trust := exec.Command(k.agents, "trust", "--yes") // the cfg file, if there is one
	trust.Dir, trust.Env = dir, env
	_ = trust.Run() // mostly there is nothing to trust
	cmd := exec.Command(k.agents, args...)
	cmd.Dir, cmd.Env = dir, env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	output := bufio.NewReader(stderr)
	line, err := output.ReadString('\n')
	if err != nil {
		t.Fatalf("the server said %q: %v", line, err)
	}
	_, url, found := strings.Cut(strings.TrimSpace(line), said)
	if !found {
		t.Fatalf("the server said %q", line)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		rest, _ := io.ReadAll(output)
		if err := cmd.Wait(); err != nil || len(rest) > 0 {
			t.Errorf("the server ended with %v and said %q", err, rest)
		}
	})
	return url
}
