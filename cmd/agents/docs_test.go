package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

// elsewhere are the command lines of the manual that this test does not run, and
// who does.
var elsewhere = map[string]string{
	"make build":    "CI does it before all else; here it would build for a minute",
	"go test ./...": "it is what runs this test",
}

// TestDocs does what a reader of the manual does: it takes the pages' files and
// commands from top to bottom, in a copy of the repository, and compares what is
// printed with what the page shows.
//
//   - ```console: lines "$ COMMAND", each with what it prints on stdout below it.
//     "…" in a line stands for any text, a line "…" for any lines. The command
//     must succeed; a page that shows a failure adds "; echo $?" or the like.
//   - ```sh: a tool if it begins with #!, otherwise commands that must succeed.
//   - ```shell: commands that need podman or a release; the tests of the examples and
//     .ci/packages run them.
//   - ```json: JSON that its schema accepts, if it is a file that has one.
//
// A block whose first line is "```LANGUAGE FILE" is written to FILE.
func TestDocs(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "agents")); err != nil { // see TestMain
		t.Fatal(err)
	}
	needs := map[string]string{"README.md": "python3", "docs/cli.md": "python3", "docs/audit.md": "openssl", "docs/lend.md": "python3", "docs/nesting.md": "python3", "docs/serve.md": "curl", "examples/mcp-conformance/README.md": "jq", "examples/tool-node/README.md": "node", "examples/runner-python/README.md": "python3", "examples/tool-python/README.md": "python3", "examples/context/README.md": "python3"}
	for _, name := range pages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(needs[name]); needs[name] != "" && err != nil {
				t.Skipf("the page needs %s, which is not installed", needs[name])
			}
			r := &reader{page: name, dir: t.TempDir(), home: t.TempDir(), bin: bin}
			page := readPage(t, name)
			list := blocks(page)
			if slices.ContainsFunc(list, block.acts) {
				copyRepository(t, r.dir, builds.MatchString(page))
			}
			for _, b := range list {
				r.follow(t, b)
			}
		})
	}
}

// repository is where the pages lie, seen from this package.
const repository = "../.."

// pages are the pages of the manual.
func pages(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"README.md", "docs/*.md", "examples/README.md", "examples/*/README.md", "agents/README.md", "agents/*/README.md", "tools/README.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no pages %s (%v)", pattern, err)
		}
		for _, path := range found {
			names = append(names, filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash(repository+"/"))))
		}
	}
	return names
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A block is what stands between two fences.
type block struct {
	line     int // of its first line
	language string
	file     string
	text     string
}

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)(?: +(\\S+))?\n(.*?)^```$")

func blocks(page string) []block {
	var list []block
	for _, m := range fenced.FindAllStringSubmatchIndex(page, -1) {
		b := block{line: strings.Count(page[:m[6]], "\n") + 1, language: page[m[2]:m[3]], text: page[m[6]:m[7]]}
		if m[4] >= 0 && strings.ContainsAny(page[m[4]:m[5]], "./") {
			b.file = page[m[4]:m[5]]
		}
		list = append(list, b)
	}
	return list
}

// acts reports whether the block is a file, or something to run.
func (b block) acts() bool {
	return b.file != "" || b.tool() || b.language == "console" || b.language == "sh"
}

func (b block) tool() bool { return strings.HasPrefix(b.text, "#!") }

// A reader follows a page.
type reader struct {
	page           string
	dir, home, bin string
}

func (r *reader) follow(t *testing.T, b block) {
	t.Helper()
	if b.file != "" {
		r.write(t, b)
	}
	switch {
	case b.tool():
		r.tool(t, b)
	case b.language == "console":
		r.console(t, b)
	case b.language == "sh":
		for i, command := range strings.Split(strings.TrimSpace(b.text), "\n") {
			r.run(t, b.line+i, command)
		}
	case b.language == "json":
		r.json(t, b)
	}
}

func (r *reader) write(t *testing.T, b block) {
	t.Helper()
	mode := os.FileMode(0o644)
	if b.tool() {
		mode = 0o755
	}
	path := filepath.Join(r.dir, b.file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.text), mode); err != nil {
		t.Fatal(err)
	}
}

// tool checks a tool: sh must be able to parse it, and one that knows the word
// describe must describe itself.
func (r *reader) tool(t *testing.T, b block) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte(b.text), 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(b.text, "#!/bin/sh\n") {
		r.run(t, b.line, "sh -n '"+path+"'")
	}
	if _, err := exec.LookPath("python3"); err != nil && strings.Contains(b.text, "python3") {
		t.Logf("%s:%d: not run: %v", r.page, b.line, err)
		return
	}
	if strings.Contains(b.text, "describe") {
		out, ok := r.run(t, b.line, "'"+path+"' describe")
		if ok {
			r.valid(t, b.line, []byte(out), schemas.ToolDescriptionName)
		}
	}
}

// console runs the commands of a block and compares their output.
func (r *reader) console(t *testing.T, b block) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "$ ") {
		t.Errorf("%s:%d: the block does not begin with a command", r.page, b.line)
		return
	}
	for i := 0; i < len(lines); {
		at, command := b.line+i, strings.TrimPrefix(lines[i], "$ ")
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		want := lines[i+1 : end]
		i = end
		out, ok := r.run(t, at, command)
		if !ok {
			continue
		}
		got := strings.Split(out, "\n")
		if got[len(got)-1] == "" {
			got = got[:len(got)-1]
		}
		if !matches(got, want) {
			t.Errorf("%s:%d: %s\nprints\n%s\nand the page shows\n%s", r.page, at, command, out, strings.Join(want, "\n"))
		}
	}
}

// matches compares lines with those of a page.
func matches(got, want []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "…":
		return matches(got, want[1:]) || len(got) > 0 && matches(got[1:], want)
	case len(got) == 0:
		return false
	}
	parts := strings.Split(want[0], "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	pattern := regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	return pattern.MatchString(got[0]) && matches(got[1:], want[1:])
}

// run runs a command line and returns what it prints on stdout, if there is
// something to compare. It reports a command that fails.
func (r *reader) run(t *testing.T, line int, command string) (stdout string, ok bool) {
	t.Helper()
	if command == "" || strings.HasPrefix(command, "#") || elsewhere[command] != "" {
		return "", false
	}
	if dir, ok := strings.CutPrefix(command, "cd "); ok && !strings.ContainsAny(dir, " ;&|") { // for the rest of the page
		r.dir = filepath.Join(r.dir, dir)
		return "", false
	}
	if _, err := exec.LookPath("python3"); err != nil && strings.Contains(command, ".py") {
		t.Logf("%s:%d: not run: %v", r.page, line, err)
		return "", false
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(command, "go run -v ./cmd/agents", "agents"))
	cmd.WaitDelay = time.Minute
	cmd.Dir = r.dir
	cmd.Env = r.environ()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s:%d: %s: %v\n%s%s", r.page, line, command, err, &out, &errs)
		return "", false
	}
	return out.String(), true
}

// withoutSleep keeps the race detector from sleeping for a second at every exit.
const withoutSleep = "GORACE=atexit_sleep_ms=0"

// environ leads nowhere but into the reader's own folders: no configuration of
// the person who tests, no key, no network.
func (r *reader) environ() []string {
	return []string{
		"PATH=" + r.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=dumb",
		"HOME=" + r.home, "XDG_CACHE_HOME=" + r.home + "/cache", "XDG_CONFIG_HOME=" + r.home + "/config",
		"XDG_STATE_HOME=" + r.home + "/state", "XDG_DATA_HOME=" + r.home + "/data", "TMPDIR=" + r.home,
		"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1",
		"AGENTS_KEYRING=off", withoutSleep,
	}
}

// json checks a JSON text: a file that has a schema must satisfy it.
func (r *reader) json(t *testing.T, b block) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.text), &members); err != nil {
		if !json.Valid([]byte(b.text)) {
			t.Errorf("%s:%d: no valid JSON: %v", r.page, b.line, err)
		}
		return
	}
	for key, name := range map[string]string{
		"tag": schemas.AgentName, "keys": schemas.KeysName, "args": schemas.ToolDescriptionName, "rules": "script.schema.json", "expect": schemas.AgentTestName, "prices": schemas.PricesName,
		"agentsConfigDir": schemas.CfgName, "agentsDirectories": schemas.CfgName, "agentsFiles": schemas.CfgName, "agentsLogs": schemas.CfgName,
	} {
		if members[key] != nil {
			r.valid(t, b.line, []byte(b.text), name)
		}
	}
}

// valid compares a JSON text with a schema.
func (r *reader) valid(t *testing.T, line int, text []byte, name string) {
	t.Helper()
	source, err := schemas.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.CompileTrusted(name, source)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range s.Check(text) {
		t.Errorf("%s:%d: %s: %s", r.page, line, name, problem)
	}
}

// builds finds the command lines that need the sources of the programs.
var builds = regexp.MustCompile(`(?m)^\$ go (run|build) `)

// copyRepository copies the repository, without what was built and what git
// keeps. The sources of the programs are two thirds of it.
func copyRepository(t *testing.T, dir string, sources bool) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an editor's temporary file
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, repository))
		switch name := d.Name(); {
		case d.IsDir() && (name == ".git" || name == "build" || name == "testdata"),
			!sources && (to == filepath.Join(dir, "cmd") || to == filepath.Join(dir, "pkg")):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case !d.Type().IsRegular(), strings.HasSuffix(name, ".test"), strings.HasSuffix(name, ".out"):
			return nil
		}
		text, err := os.ReadFile(path)
		info, infoErr := d.Info()
		switch err := errors.Join(err, infoErr); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		// Whatever the umask, nobody else may write what is to be executed.
		return os.WriteFile(to, text, info.Mode().Perm()&^0o022)
	})
	if err != nil {
		t.Fatal(err)
	}
}
