//go:build linux

package suites

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/schema"
)

// folder returns what the variable names below it, or skips the test.
func folder(t *testing.T, variable, below string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s names no copy of the suite", variable)
	}
	return filepath.Join(dir, below)
}

// files returns the files of a folder with the suffix, in order.
func files(t *testing.T, dir, suffix string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, suffix) {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("%s has no files: %v", dir, err)
	}
	return list
}

// readJSON decodes a file.
func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// tally counts verdicts.
type tally map[string]int

func (c tally) String() string {
	var parts []string
	for k, n := range c {
		parts = append(parts, fmt.Sprintf("%s: %d", k, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// spent reports the time since began and the most memory of this process.
func spent(began time.Time) string {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it knows this process
	return fmt.Sprintf("%.1f s, at most %d MB", time.Since(began).Seconds(), u.Maxrss>>10)
}

// remote are the groups with schemas that refer to others, which are refused as a whole.
var remote = []string{"refRemote refused", "dynamicRef refused", "vocabulary refused", "as the suite"}

// TestJSONSchemaTestSuite compares the verdicts of the drafts that tools use. Only what is optional
// may differ, and what refers to other schemas.
func TestJSONSchemaTestSuite(t *testing.T) {
	dir := folder(t, "JSON_SCHEMA_TEST_SUITE", "tests")
	for _, draft := range []string{"draft7", "draft2020-12"} {
		t.Run(draft, func(t *testing.T) {
			counts, began := tally{}, time.Now()
			for _, file := range files(t, filepath.Join(dir, draft), ".json") {
				group := strings.TrimSuffix(strings.TrimPrefix(file, filepath.Join(dir, draft)+"/"), ".json")
				var cases []struct {
					Description string
					Schema      json.RawMessage
					Tests       []struct {
						Description string
						Data        json.RawMessage
						Valid       bool
					}
				}
				readJSON(t, file, &cases)
				if strings.HasPrefix(group, "optional/") {
					group = "optional"
				}
				for _, c := range cases {
					text := c.Schema
					if draft == "draft7" && text[0] == '{' && !strings.Contains(string(text), `"$schema"`) {
						text = []byte(strings.Replace(`{"$schema":"http://json-schema.org/draft-07/schema#",`+string(text[1:]), ",}", "}", 1))
					}
					s, err := schema.Compile("s", text)
					for _, v := range c.Tests {
						if err != nil {
							counts[group+" refused"]++
							t.Logf("%s, %s: %v", filepath.Base(file), c.Description, err)
							continue
						}
						violations, err := s.Validate(t.Context(), v.Data)
						switch {
						case err == nil && (len(violations) == 0) == v.Valid:
							counts["as the suite"]++
						case v.Valid:
							counts[group+" stricter"]++
							t.Logf("%s, %s, %s: %v %v", filepath.Base(file), c.Description, v.Description, err, violations)
						default:
							counts[group+" looser"]++
							t.Logf("%s, %s, %s: accepted", filepath.Base(file), c.Description, v.Description)
						}
					}
				}
			}
			runtime.GC()
			t.Logf("%s; %s", counts, spent(began))
			for group := range counts {
				if !strings.HasPrefix(group, "optional ") && !slices.Contains(remote, group) {
					t.Errorf("%s: %d", group, counts[group])
				}
			}
		})
	}
}

// TestJSONSchemaBench compiles schemas of the real world as those of tools.
func TestJSONSchemaBench(t *testing.T) {
	counts, began := tally{}, time.Now()
	var slowest time.Duration
	for _, file := range files(t, folder(t, "JSON_SCHEMA_BENCH", "data"), ".json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = schema.Compile("s", text)
		if d := time.Since(start); d > slowest {
			slowest = d
			t.Logf("%s: %v", filepath.Base(file), d)
		}
		switch {
		case err == nil && len(schema.NotCompared(text)) > 0:
			counts["compiled, with a pattern that accepts everything"]++
		case err == nil:
			counts["compiled"]++
		default:
			counts[reason(err)]++
			t.Logf("%s: %v", filepath.Base(file), err)
		}
	}
	t.Logf("%s; slowest %v; %s", counts, slowest, spent(began))
}

// reason groups errors.
func reason(err error) string {
	for text, group := range map[string]string{
		"other files are not read": "refused: refers to another file", "patternProperties": "refused: a key of patternProperties is not supported",
		"not found": "refused: refers to nothing", "values": "refused: too large", "bytes long": "refused: too large",
	} {
		if strings.Contains(err.Error(), text) {
			return group
		}
	}
	return "refused: not valid"
}
