package mcpclient

import (
	"context"
	"fmt"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
)

// cached gives r a cache, and fills it by one start of the server.
func (r *rig) cached() {
	r.t.Helper()
	r.opts.CacheDir = filepath.Join(r.dir, "cache")
	set := r.open()
	r.tools(set)
	set.Close(r.t.Context())
}

// starts is how often the server was started.
func (r *rig) starts() int { return strings.Count(r.notes(), "start\n") }

// listingFile is the only file of the cache.
func (r *rig) listingFile() string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.opts.CacheDir, "*"))
	if err != nil || len(files) != 1 {
		r.t.Fatalf("the cache holds %v (%v), want one file", files, err)
	}
	return files[0]
}

func specs(tools []agent.Tool) (list []agent.ToolSpec) {
	for _, t := range tools {
		list = append(list, t.Spec())
	}
	return list
}

func TestCachedToolsPutTheStartOff(t *testing.T) {
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode, "FAKE_HAS=resources")
			r.write("tools.json", `{"tools":[{"name":"echo","description":"<b> & \u0000 é","inputSchema":{"type": "object", "maxProperties": 9007199254740993}}]}`)
			r.opts.CacheDir = filepath.Join(r.dir, "cache")
			first := r.open()
			real, err := first.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first.Close(t.Context())

			set := r.open()
			tools, err := set.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(specs(real), specs(tools)); diff != "" {
				t.Errorf("the cache changes tools (-server +cache):\n%s", diff)
			}
			if text, err := set.Instructions(t.Context()); err != nil || text != "Mind the gap." {
				t.Errorf("Instructions = %q, %v", text, err)
			}
			if n := r.starts(); n != 1 {
				t.Fatalf("the server was started %d times, want 1", n)
			}
			res, err := byName(tools)["echo"].Call(t.Context(), invocation(`{"a":1}`))
			if err != nil || res.Text() != `{"a":1}` {
				t.Errorf("Call = %q, %v", res.Text(), err)
			}
			if n := r.starts(); n != 2 {
				t.Errorf("the server was started %d times, want 2", n)
			}
			now, err := set.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(specs(real), specs(now)); diff != "" {
				t.Errorf("the start changes tools (-before +after):\n%s", diff)
			}
			if text, err := set.Instructions(t.Context()); err != nil || text != "Mind the gap." {
				t.Errorf("after the start Instructions = %q, %v", text, err)
			}
			if probes := strings.Count(r.notes(), "server/discover"); mode == "legacy" && probes != 1 {
				t.Errorf("the old server was asked for the newest protocol %d times, want 1: the cache knows it", probes)
			}
		})
	}
}

// TestTheFirstStartBringsTheTruth: what the cache says wrong is found out before
// anything is called, and the next turn has what is right.
func TestTheFirstStartBringsTheTruth(t *testing.T) {
	r := newRig(t, "legacy")
	r.write("tools.json", `{"tools":[{"name":"echo"},{"name":"give","inputSchema":{"type":"object"}},{"name":"hang"}]}`)
	r.cached()
	r.write("tools.json", `{"tools":[{"name":"echo","description":"new words"},{"name":"give","inputSchema":{"type":"object","required":["x"]}},{"name":"steps"}]}`)
	set := r.open()
	tools := r.tools(set)
	for name, want := range map[string]string{
		"echo": "<nil>",
		"give": "nothing was called: MCP server fake: the arguments of its tool give have changed; look at it again",
		"hang": "nothing was called: MCP server fake: it has no tool hang any more",
	} {
		if _, err := tools[name].Call(t.Context(), invocation(`{}`)); fmt.Sprint(err) != want {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
	if notes := r.notes(); strings.Contains(notes, "call give") || strings.Contains(notes, "call hang") {
		t.Errorf("a stale tool was called:\n%s", notes)
	}
	list, err := set.Tools(t.Context())
	if want := []string{"echo", "give", "steps"}; err != nil || !slices.Equal(names(list), want) {
		t.Errorf("the next turn has %v, %v; want %v", names(list), err, want)
	}
	list, err = r.open().Tools(t.Context())
	if err != nil || len(list) != 3 || r.starts() != 2 {
		t.Errorf("the next run has %v, %v after %d starts; want the new tools from the cache", names(list), err, r.starts())
	}
}

func TestStartDoesNotTrustTheCache(t *testing.T) {
	r := newRig(t, "legacy")
	r.write("tools.json", `{"tools":[{"name":"old"}]}`)
	r.cached()
	r.write("tools.json", `{"tools":[{"name":"new"}]}`)
	set := r.open()
	set.Start()
	if list, err := set.Tools(t.Context()); err != nil || !slices.Equal(names(list), []string{"new"}) {
		t.Errorf("Tools = %v, %v; want what the server says", names(list), err)
	}
}

// TestDamagedCacheIsNoCache: whatever happened to the file, the server is asked.
func TestDamagedCacheIsNoCache(t *testing.T) {
	change := func(f func(data []byte) []byte) func(string) error {
		return func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, f(data), 0o600)
		}
	}
	for name, damage := range map[string]func(path string) error{
		"empty":     change(func([]byte) []byte { return nil }),
		"cut":       change(func(b []byte) []byte { return b[:len(b)-10] }),
		"one bit":   change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		"the head":  change(func(b []byte) []byte { b[3] ^= 1; return b }),
		"too large": change(func(b []byte) []byte { return append(b, make([]byte, maxCacheBytes)...) }),
		"old":       func(path string) error { at := time.Now().Add(-25 * time.Hour); return os.Chtimes(path, at, at) },
		"of the future": func(path string) error {
			at := time.Now().Add(25 * time.Hour)
			return os.Chtimes(path, at, at)
		},
		"others may write": func(path string) error { return os.Chmod(path, 0o666) },
		"a pipe": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return exec.Command("mkfifo", path).Run()
		},
		"a folder": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "legacy")
			r.cached()
			if err := damage(r.listingFile()); err != nil {
				t.Fatal(err)
			}
			if n := len(r.tools(r.open())); n < 11 || r.starts() != 2 {
				t.Errorf("%d tools after %d starts, want all after 2", n, r.starts())
			}
			if name == "a folder" {
				return // it stays, and the cache is done without
			}
			if r.tools(r.open()); r.starts() != 2 {
				t.Error("the cache was not written anew")
			}
		})
	}
}

// TestCacheKnowsAServerByWhatDefinesIt changes one thing at a time.
func TestCacheKnowsAServerByWhatDefinesIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, r *rig)
		starts int
	}{
		"nothing":      {func(*testing.T, *rig) {}, 1},
		"its name":     {func(_ *testing.T, r *rig) { r.server.Name = "other" }, 1},
		"a value":      {func(_ *testing.T, r *rig) { r.server.Env[0] = "FAKE=modern" }, 1},
		"a variable":   {func(_ *testing.T, r *rig) { r.server.Env = append(r.server.Env, "NEW=1") }, 2},
		"an argument":  {func(_ *testing.T, r *rig) { r.server.Args = []string{"-v"} }, 2},
		"its identity": {func(_ *testing.T, r *rig) { r.server.Identity = "other settings" }, 2},
		"the folder":   {func(t *testing.T, r *rig) { r.server.Dir = t.TempDir() }, 2},
		"the protocol": {func(_ *testing.T, r *rig) { r.server.Protocol = "2025-11-25" }, 2},
		"what we can": {func(_ *testing.T, r *rig) {
			r.opts.Sample = func(context.Context, Sampling) (s Sampled, err error) { return }
		}, 2},
		"its script":      {func(_ *testing.T, r *rig) { r.write("script", "a longer one") }, 2},
		"the filter":      {func(_ *testing.T, r *rig) { r.server.Tools = []string{"*"} }, 1},
		"patience":        {func(_ *testing.T, r *rig) { r.server.CallTimeout = time.Hour }, 1},
		"another program": {func(_ *testing.T, r *rig) { r.server.Executable = "./link2" }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "legacy")
			r.write("script", "one")
			exe := r.server.Executable
			for _, link := range []string{"link", "link2"} {
				if err := os.Symlink(exe, filepath.Join(r.dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			r.server.Executable, r.server.Dir, r.server.Args = "./link", r.dir, []string{"script"}
			r.cached()
			c.change(t, r)
			if name == "the folder" {
				r.server.Executable = exe
			}
			if r.tools(r.open()); r.starts() != c.starts {
				t.Errorf("the server was started %d times, want %d", r.starts(), c.starts)
			}
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	r := newRig(t, "legacy")
	r.opts.CacheDir = filepath.Join(r.dir, "cache")
	if err := os.Mkdir(r.opts.CacheDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxCacheFiles {
		path := filepath.Join(r.opts.CacheDir, fmt.Sprint(i, cacheSuffix))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(i) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	r.tools(r.open())
	files, err := os.ReadDir(r.opts.CacheDir)
	if err != nil || len(files) != maxCacheFiles {
		t.Errorf("the cache holds %d files (%v), want %d", len(files), err, maxCacheFiles)
	}
	if r.tools(r.open()); r.starts() != 1 {
		t.Error("the new file is not among them")
	}
}

// TestListsThatAreNotKept: a list that is too long, or not whole, is asked for
// at every start.
func TestListsThatAreNotKept(t *testing.T) {
	r := newRig(t, "legacy")
	r.opts.CacheDir = filepath.Join(r.dir, "cache")
	r.write("tools.json", `{"tools":[{"name":"t"}],"nextCursor":"bad"}`)
	r.write("bad.json", `[]`)
	for want := 1; want <= 2; want++ {
		set := r.open()
		if tools, _ := set.Tools(t.Context()); len(tools) != 1 || r.starts() != want {
			t.Errorf("%d tools after %d starts, want 1 after %d", len(tools), r.starts(), want)
		}
		set.Close(t.Context())
	}
	f := cacheFile{cacheDir(t.TempDir()), "x"}
	f.keep(&listing{instructions: "short"})
	if l := f.find(); l == nil || l.instructions != "short" {
		t.Errorf("the cache has %v, want what was kept", l)
	}
	f.keep(&listing{instructions: strings.Repeat("x", maxCacheBytes)})
	if l := f.find(); l != nil {
		t.Error("what is too long to be kept leaves something old in its place")
	}
}

// TestCachedToolsOfAServerThatFails: the call says what is wrong, and the tools
// stay with a warning.
func TestCachedToolsOfAServerThatFails(t *testing.T) {
	r := newRig(t, "legacy")
	r.cached()
	r.server.Env[0] = "FAKE=crash"
	set := r.open()
	_, err := r.tools(set)["echo"].Call(t.Context(), invocation(`{}`))
	if want := "nothing was called: MCP server fake: start it: the server ended (exit status 3)"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Call: %v\nwant %s", err, want)
	}
	if tools, err := set.Tools(t.Context()); len(tools) < 11 || err == nil || !strings.Contains(err.Error(), "no configuration found") {
		t.Errorf("Tools = %v, %v; want all with the error", names(tools), err)
	}
}

func TestCacheOverHTTP(t *testing.T) {
	for name, starts := range map[string]bool{"mcp.example.com": false, "": true} {
		r := newRig(t, "library")
		r.overHTTP(newLibraryServer())
		var asked atomic.Int32
		r.opts.Transport = roundTrip(func(q *http.Request) (*http.Response, error) {
			asked.Add(1)
			q = q.Clone(q.Context())
			q.URL.Host = "127.0.0.1:" + q.URL.Port()
			q.Host = q.URL.Host
			return http.DefaultTransport.RoundTrip(q)
		})
		if name != "" {
			r.server.URL = strings.Replace(r.server.URL, "127.0.0.1", name, 1)
		}
		r.cached()
		asked.Store(0)
		tools := r.tools(r.open())
		if len(tools) == 0 || asked.Load() > 0 != starts {
			t.Errorf("at %q: %d tools after %d requests; want requests: %v", r.server.URL, len(tools), asked.Load(), starts)
		}
		if _, err := tools["question"].Call(t.Context(), invocation(`{}`)); asked.Load() == 0 {
			t.Errorf("Call: %v, without a request", err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// What a server says of itself reaches the model and the cache without keys.
func TestNoKeyIsInAListing(t *testing.T) {
	r := newRig(t, "modern")
	r.write("tools.json", `{"tools":[{"name":"echo","description":"uses sk-%31234567890abc","inputSchema":{"type":"object","description":"sk-\u00311234567890abc sk-1234567890abc"}}]}`)
	r.cached()
	r.opts.Redact = redact.New([]string{"sk-1234567890abc", "Mind the gap."})
	for _, from := range []string{"an old cache", "the server", "the new cache"} {
		if from == "the server" {
			if err := os.Remove(r.listingFile()); err != nil {
				t.Fatal(err)
			}
		}
		set := r.open()
		text, err := set.Instructions(t.Context())
		for _, tool := range r.tools(set) {
			text += tool.Spec().Description + string(tool.Spec().Schema)
		}
		if strings.Contains(text, "234567890") || strings.Contains(text, "gap") || !strings.Contains(text, redact.Mark) || err != nil {
			t.Errorf("from %s: %s, %v", from, text, err)
		}
		set.Close(t.Context())
	}
	if data, err := os.ReadFile(r.listingFile()); err != nil || strings.Contains(string(data), "234567890") || strings.Contains(string(data), "gap") {
		t.Errorf("the cache has %s, %v", data, err)
	}
}
