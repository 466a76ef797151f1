package exectool

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

func TestDecodeBase64(t *testing.T) {
	tests := []struct {
		name, data, kind, want string // want "" means left alone
	}{
		{"image", "iVBORw0K\nGgo=\n", "image/png", "\x89PNG\r\n\x1a\n"},
		{"raw image", "\x89PNG\r\n\x1a\n", "image/png", ""},
		{"unpadded", "iVBORw0KGgo", "image/png", ""},
		{"padding inside", "iVB=Rw0K", "image/png", ""},
		{"only white space", " \n", "image/png", ""},
		{"a word", "abcd", "text/plain", ""},
		{"a long word", strings.Repeat("abcdefgh", 20), "text/csv", ""},
		{"a hash", strings.Repeat("0123456789abcdef", 4), "application/json", ""},
		{"text in base64", "YSxiCjEsMgozLDQKNSw2CjcsOAo5LDEwCjExLDEyCg==", "text/csv", "a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n"},
	}
	for _, tt := range tests {
		got, ok := decodeBase64([]byte(tt.data), tt.kind)
		if ok != (tt.want != "") || string(got) != tt.want {
			t.Errorf("%s: decodeBase64(%q) = %q, %v, want %q", tt.name, tt.data, got, ok, tt.want)
		}
	}
}

// A key is nowhere in what is kept of a call, wherever the output is cut: not as a
// whole, and no piece of it that is of use.

func TestKeysAreRedactedBeforeTheCut(t *testing.T) {
	t.Parallel()
	const key = "sk-Zq8rTn2WbV5xKc7LmP0sHd4FgJ9yAe3UiO6tEw1RBk"
	pieces := map[string]bool{}
	for i := range len(key) - 7 {
		pieces[key[i:i+8]] = true
	}
	clean := func(where, text string) {
		t.Helper()
		for i := range len(text) - 7 {
			if pieces[text[i:i+8]] {
				t.Errorf("%s holds %q in %q", where, text[i:i+8], text[max(0, i-40):min(len(text), i+40)])
				return
			}
		}
	}
	const dense = `i=0; while [ $i -lt 8000 ]; do printf '%s' '` + key + `x'; printf '%s' 'x` + key + `' >&2; i=$((i+1)); done; `
	for name, test := range map[string]struct {
		body  string
		files int
	}{
		"a success":          {dense, 1},
		"a failure":          {dense + "exit 1", 2},
		"a key in two parts": {"printf '" + key[:20] + "'; sleep 0.1; printf '" + key[20:] + "'", 0},
	} {
		tool := openOne(t, Source{}, plain("leak"), test.body)
		tool.opts.Redact = redact.New([]string{key})
		res, _ := tool.Call(t.Context(), invocation("{}"))
		if !strings.Contains(res.Text(), redact.Mark) {
			t.Errorf("%s: the result is %.100q", name, res.Text())
		}
		clean(name, res.Text())
		clean(name+": progress", strings.Join(toldBy(t, tool), "\n"))
		spooled, _ := filepath.Glob(tool.opts.SpoolDir + "/*")
		for _, path := range spooled {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clean(name+": file", string(data))
		}
		if len(spooled) != 2*test.files {
			t.Errorf("%s: %d files of two calls, want %d", name, len(spooled), 2*test.files)
		}
	}
}

// A key that a tool describes itself with reaches neither the model nor the cache, however it
// is spelled, and also if the description was cached before the key was known.
func TestNoKeyIsInADescription(t *testing.T) {
	const key = "sk-Zq8rTn2WbV5xKc7LmP0sHd4FgJ9yAe3UiO6tEw1RBk"
	for name, spelling := range map[string]string{"plain": key, "URL": strings.ReplaceAll(key, "-", "%2d"), "JSON": strings.ReplaceAll(key, "s", `\u0073`)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"slug":"leak","description":"uses ` + spelling + `","args":[{"name":"a","description":"by default ` + spelling + `","backing_type":"string","arity":"single","mode":"dashdashspace"}]}`
			script(t, filepath.Join(dir, "tools", "leak"), describing(text, ""))
			for _, cache := range []string{"with", "without"} {
				opts := Options{Environ: os.Environ(), CacheDir: filepath.Join(dir, cache)}
				if cache == "without" {
					if _, err := Open(t.Context(), []Source{{Path: filepath.Join(dir, "tools")}}, opts); err != nil {
						t.Fatal(err)
					}
				}
				opts.Redact = redact.New([]string{key})
				set, err := Open(t.Context(), []Source{{Path: filepath.Join(dir, "tools")}}, opts)
				if err != nil || len(set.List()) != 1 {
					t.Fatalf("Open = %v, %v", set.Problems(), err)
				}
				spec := set.List()[0].Spec()
				if got := spec.Description + string(spec.Schema); strings.Contains(got, "Zq8r") || strings.Count(got, redact.Mark) != 2 {
					t.Errorf("%s: the model sees %s", cache, got)
				}
				files, _ := filepath.Glob(filepath.Join(opts.CacheDir, "*"))
				for _, file := range files {
					if data, err := os.ReadFile(file); err != nil || cache == "with" && strings.Contains(string(data), "Zq8r") {
						t.Errorf("%s holds the key, or %v", file, err)
					}
				}
				if len(files) == 0 {
					t.Error("nothing is cached")
				}
			}
		})
	}
}

func TestToolEnvironment(t *testing.T) {
	d := newDumper(t)
	dir := t.TempDir()
	base := append(os.Environ(), "AGENT_SESSION_ID=outer", "AGENT_ID=outer", "AGENTS_CALL_ID=outer", "AGENTS_CALL_ID=outer2", "X_TOKEN=secret",
		"OTHER_PASSWORD=handed through", "PLAIN=1", "PLAIN=2", "TRACEPARENT=outer", "BIG="+strings.Repeat("x", 200_000))
	tool, err := d.open(Source{Env: []string{"OTHER_PASSWORD"}, Dir: dir}, Options{Environ: base}, plain("dumper"))
	if err != nil {
		t.Fatal(err)
	}
	inv := invocation("")
	inv.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got, err := d.invoke(tool, inv)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for _, entry := range got.Env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = append(values[name], value)
	}
	want := map[string][]string{
		"AGENTS_SESSION_ID": {inv.Session}, "AGENTS_CALL_ID": {inv.Key}, "AGENTS_AGENT": {"boss"}, "AGENTS_FILE": nil,
		"AGENT_SESSION_ID": {inv.Session}, "AGENT_CONVERSATION_ID": {inv.Session}, "AGENT_TURN_ID": {inv.Session + ".2"},
		"AGENT_AGENT_ID": {"boss"}, "AGENT_ID": {"boss"},
		"X_TOKEN": nil, "OTHER_PASSWORD": {"handed through"}, "PLAIN": {"2"}, "BIG": nil, "TRACEPARENT": {inv.Trace}, "PATH": {os.Getenv("PATH")},
	}
	for name, value := range want {
		if diff := cmp.Diff(value, values[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, list := range values {
		if len(list) != 1 {
			t.Errorf("%s is there %d times", name, len(list))
		}
	}
	if got.Dir != dir {
		t.Errorf("working directory %s, want %s", got.Dir, dir)
	}
	if len(got.Stdin) != 0 {
		t.Errorf("stdin = %q, want nothing", got.Stdin)
	}
}

// caller is a model that asks for one call.
type caller struct{ name string }

func (c caller) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{{Name: c.name, Args: "{}"}}}}, nil
}

// told are the progress events of a call of a script.
func told(t *testing.T, body string) []string {
	t.Helper()
	return toldBy(t, openOne(t, Source{}, plain("x"), body))
}

// toldBy are the progress events of a call without arguments.
func toldBy(t *testing.T, tool *Tool) []string {
	t.Helper()
	var got []string
	r := &runner.Runner{
		Agent: &agent.Agent{Provider: caller{tool.Spec().Name}, Toolsets: []agent.Toolset{agent.ToolList{tool}}},
		Observe: func(e agent.Event) {
			if e.Kind == agent.EventProgress {
				got = append(got, e.Text)
			}
		},
	}
	if err := r.Prompt(t.Context(), agent.UserText("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the answer, then its call
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestLinesOfStderrAreProgress(t *testing.T) {
	long := strings.Repeat("x", maxProgressLine)
	tests := []struct {
		name, body string
		want       []string
	}{
		{"lines", "echo 1/2 >&2; echo out; echo 2/2 >&2", []string{"1/2", "2/2"}},
		{"a bar that is redrawn", `printf ' 10%%\r 50%%\r\n\n100%%\n' >&2`, []string{"10%", "50%", "100%"}},
		{"an unfinished line", "printf half >&2", nil},
		{"odd bytes", `printf 'caf\351\n' >&2`, []string{"caf\uFFFD"}},
		{"a long line", "echo " + long + "y >&2; echo next >&2", []string{long, "next"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(t, tt.body); !slices.Equal(got, tt.want) {
				t.Errorf("progress %q, want %q", got, tt.want)
			}
		})
	}
	if got := told(t, "seq 5000 >&2"); len(got) != maxProgressLines || got[0] != "1" {
		t.Errorf("%d lines are told, want %d", len(got), maxProgressLines)
	}
}
