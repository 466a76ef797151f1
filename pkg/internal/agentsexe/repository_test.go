package agentsexe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A repository is the git repository of agents-exe.
type repository struct {
	dir      string
	in       io.Writer // of git cat-file
	out      *bufio.Reader
	versions map[string][]string // the blobs of a path, in all commits
	head     map[string]string   // the blob of a path
}

func open(t *testing.T) *repository {
	dir := os.Getenv("AGENTS_EXE_REPOSITORY")
	if dir == "" {
		t.Skip("AGENTS_EXE_REPOSITORY names no repository of agents-exe")
	}
	r := &repository{dir: dir, versions: map[string][]string{}, head: map[string]string{}}
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	r.in, r.out = in, bufio.NewReader(out)
	for line := range strings.Lines(r.git(t, "log", "--all", "-m", "--no-renames", "--raw", "--no-abbrev", "--pretty=format:")) {
		info, path, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if blob := strings.Fields(info); ok && len(blob) > 3 && !slices.Contains(r.versions[path], blob[3]) {
			r.versions[path] = append(r.versions[path], blob[3])
		}
	}
	for line := range strings.Lines(r.git(t, "ls-tree", "-r", "HEAD")) {
		info, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		r.head[path] = strings.Fields(info)[2]
	}
	return r
}

func (r *repository) git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", r.dir}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %s: %v", args[0], err)
	}
	return string(out)
}

// blob returns the contents of a blob; nil if the repository does not have it.
func (r *repository) blob(t *testing.T, id string) []byte {
	fmt.Fprintln(r.in, id)
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var name, kind string
	var size int
	if n, _ := fmt.Sscan(line, &name, &kind, &size); n < 3 {
		return nil
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r.out, data); err != nil {
		t.Fatal(err)
	}
	return data[:size]
}

// sessions calls f for each session file, of HEAD only or of all commits.
func (r *repository) sessions(t *testing.T, history bool, f func(path string, data []byte)) {
	seen := map[string]bool{}
	paths := make([]string, 0, len(r.versions))
	for path := range r.versions {
		if strings.HasSuffix(path, ".json") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, id := range r.versions[path] {
			if seen[id] || !history && r.head[path] != id {
				continue
			}
			seen[id] = true
			var s struct {
				SessionID string          `json:"sessionId"`
				Turns     json.RawMessage `json:"turns"`
			}
			data := r.blob(t, id)
			if bytes.Contains(data, []byte(`"sessionId"`)) && json.Unmarshal(data, &s) == nil && s.SessionID != "" && s.Turns != nil {
				f(path, data)
			}
		}
	}
}
