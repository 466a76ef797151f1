package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/schemas"
)

// This package reads its files without pkg/schema. What it says must be what the
// published schemas say, place for place.
func TestReadersAgreeWithThePublishedSchemas(t *testing.T) {
	readers := map[string]func(path string) ([]string, error){
		"keys": func(path string) ([]string, error) {
			_, warnings, err := config.ReadKeys(path)
			return warnings, err
		},
		"cfg": func(path string) ([]string, error) {
			_, warnings, err := config.ReadFile(path, "/home/me", nil)
			return warnings, err
		},
	}
	for kind, read := range readers {
		doc, err := schemas.Read(kind + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.CompileTrusted(kind, doc)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob("../../schemas/testdata/*/" + kind + "-*.json")
		if err != nil || len(files) < 3 {
			t.Fatalf("Glob = %v, %v, want good and bad files", files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), filepath.Base(file))
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			var want, wantUnknown []string
			for _, p := range s.Check(text) {
				place := fmt.Sprintf("%d:%d: %s", p.Line, p.Col, p.Key)
				if p.Warning {
					wantUnknown = append(wantUnknown, place)
				} else {
					want = append(want, place)
				}
			}
			warnings, err := read(path)
			if diff := cmp.Diff(want, places(err)); diff != "" {
				t.Errorf("%s: errors (-schema +config):\n%s", file, diff)
			}
			if err != nil {
				continue // then there are no warnings
			}
			var unknown []string
			for _, w := range warnings {
				if strings.Contains(w, "unknown key") {
					unknown = append(unknown, strings.TrimPrefix(w[:strings.Index(w, ": unknown")], path+":"))
				}
			}
			if diff := cmp.Diff(wantUnknown, unknown); diff != "" {
				t.Errorf("%s: unknown keys (-schema +config):\n%s", file, diff)
			}
		}
	}
}

func places(err error) []string {
	ferr, ok := errors.AsType[*config.FileError](err)
	if !ok {
		return nil
	}
	var out []string
	for _, p := range ferr.Problems {
		out = append(out, fmt.Sprintf("%d:%d: %s", p.Line, p.Col, p.Key))
	}
	return slices.Compact(out)
}
