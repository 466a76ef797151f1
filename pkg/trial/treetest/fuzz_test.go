package treetest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzParse: whatever is in a test file, it is read or refused with a place.
func FuzzParse(f *testing.F) {
	archives, err := filepath.Glob("testdata/tests/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatalf("Glob = %v, %v", archives, err)
	}
	for _, file := range archives {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, Suffix) {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, failures := parse("a"+Suffix, data)
		if (file == nil) != (len(failures) > 0) {
			t.Fatalf("parse = %v, %v", file, failures)
		}
		for _, f := range failures {
			if f.Message == "" || f.Line == 0 {
				t.Errorf("the failure %+v has no message or no line", f)
			}
		}
		if file == nil {
			return
		}
		// What is valid can be checked, and written again.
		file.check(&trace{runs: []*agentRun{{}}}, outcome{status: "ok"})
		if _, err := encode(file.Spec); err != nil {
			t.Errorf("encode: %v", err)
		}
	})
}
