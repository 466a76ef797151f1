package exectool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/redact"
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
