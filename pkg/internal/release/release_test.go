package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

// built makes a release of a program for two platforms, so many times in one folder.
func built(t *testing.T, times int) (dir string, files []file) {
	t.Helper()
	program, err := hello()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: "1.2.0", time: time.Unix(1767225600, 0).UTC(), from: t.TempDir(), to: t.TempDir()}
	for name, data := range map[string]string{"linux_amd64/agents": string(program), "windows_amd64/agents.exe": string(program), "share/completions/_agents": "#compdef agents", "share/agents.1": ".TH"} {
		path := filepath.Join(r.from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range times {
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
	}
	files, err = read(r.to, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r.to, files
}

// hello builds a small program with a dependency, once for all tests.
var hello = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hello")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"go.mod":       "module example.com/hello\n\nrequire example.com/words v1.0.0\n\nreplace example.com/words => ./words\n",
		"main.go":      "package main\n\nimport \"example.com/words\"\n\nfunc main() { print(words.Hello) }\n",
		"words/go.mod": "module example.com/words\n", "words/words.go": "package words\n\nconst Hello = \"hello\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "hello", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "hello"))
})

func TestARelease(t *testing.T) {
	dir, files := built(t, 1)
	var names, sums []string
	for _, f := range files {
		names = append(names, f.name)
		if f.name != "checksums.txt" {
			sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(f.data), f.name))
		}
	}
	if want := []string{"agents_1.2.0_linux_amd64.spdx.json", "agents_1.2.0_linux_amd64.tar.gz", "agents_1.2.0_windows_amd64.spdx.json", "agents_1.2.0_windows_amd64.zip", "checksums.txt"}; !slices.Equal(names, want) {
		t.Errorf("the release has %q", names)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "checksums.txt")); string(got) != strings.Join(sums, "") {
		t.Errorf("the checksums are\n%swant\n%s", got, strings.Join(sums, ""))
	}
	_, again := built(t, 2) // the second time the checksums are there
	if !slices.EqualFunc(files, again, func(a, b file) bool { return bytes.Equal(a.data, b.data) }) {
		t.Error("a second release is another one")
	}
	want := []string{"-rwxr-xr-x agents_1.2.0_linux_amd64/agents", "-rw-r--r-- agents_1.2.0_linux_amd64/agents.1", "-rw-r--r-- agents_1.2.0_linux_amd64/completions/_agents"}
	if got := inTar(t, files[1].data); !slices.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
	z, err := zip.NewReader(bytes.NewReader(files[3].data), int64(len(files[3].data)))
	if err != nil || len(z.File) != 3 || z.File[0].Name != "agents_1.2.0_windows_amd64/agents.exe" || z.File[0].Mode() != 0o755 {
		t.Errorf("the archive for Windows: %v, %+v", err, z)
	}
	listsModules(t, files)
}

func inTar(t *testing.T, data []byte) (list []string) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(plain)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h.FileInfo().Mode().String()+" "+h.Name)
	}
}

// listsModules checks the list of modules of a release.
func listsModules(t *testing.T, files []file) {
	t.Helper()
	var doc document
	if err := json.Unmarshal(files[0].data, &doc); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	names := map[string]string{}
	for _, p := range doc.Packages {
		if ids[p.ID] {
			t.Errorf("two packages have the id %s", p.ID)
		}
		ids[p.ID], names[p.Name] = true, p.Version
	}
	if names["example.com/hello"] != "1.2.0" || names["std"] == "" || names["example.com/words"] != "v1.0.0" || !strings.Contains(string(files[0].data), "leanlibs has changed") {
		t.Errorf("the modules are %v", names)
	}
	for _, r := range doc.Relationships {
		if r.Of != doc.ID && !ids[r.Of] || !ids[r.Related] {
			t.Errorf("%+v has an unknown package", r)
		}
	}
}

// goreleaser has the schema of .goreleaser.yaml.
const goreleaser = "github.com/goreleaser/goreleaser/v2@v2.12.0"

func TestGoreleaserConfiguration(t *testing.T) {
	out, err := exec.Command("go", "mod", "download", "-json", goreleaser).Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(out, &module) != nil {
		t.Skipf("%s cannot be downloaded: %v", goreleaser, err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "www/docs/static/schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(".goreleaser.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text []byte) []schema.Problem {
		docs, err := yamldoc.Parse(text, jsondoc.Options{})
		if err != nil || len(docs) != 1 {
			t.Fatalf("%d documents: %v", len(docs), err)
		}
		return s.CheckDocument(docs[0])
	}
	for _, p := range check(config) {
		t.Errorf("%+v", p)
	}
	if len(check(append(config, "unknown: 1\n"...))) == 0 {
		t.Error("the schema accepts an unknown key")
	}
}
