package agentsexe

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/session/transcript"
	"github.com/agents-exe/agents/pkg/source/toolbox/developer"
)

// A call is a recorded one.
type call struct {
	tool, text string // name and arguments
	args       map[string]any
	result     string
}

// calls are those of a session file whose tool has a name that begins with prefix, or is
// another one that writes a file.
func calls(t *testing.T, path string, data []byte, prefix string) (list []call) {
	for turn, err := range transcript.Turns(transcript.FromAgentsExe(data)) {
		if err != nil {
			t.Fatal(path, err)
		}
		for _, c := range turn.Calls {
			if !strings.HasPrefix(c.Name, prefix) || c.Result == nil || c.Result.Failed {
				continue
			}
			k := call{tool: c.Name, text: c.Args, result: c.Result.Text()}
			_ = json.Unmarshal([]byte(c.Args), &k.args) // nil if a model wrote something else
			list = append(list, k)
		}
	}
	return list
}

// A comparison counts what results are like.
type comparison struct {
	*testing.T
	counts, differ map[string]int
	example        map[string]string
}

func newComparison(t *testing.T) *comparison {
	return &comparison{t, map[string]int{}, map[string]int{}, map[string]string{}}
}

// report fails for differences that are not known.
func (c *comparison) report(known map[string]string) {
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		c.Logf("%4d  %s", c.counts[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(c.differ)) {
		c.Logf("differs: %4d  %s\n      %s\n      %s", c.differ[what], what, known[what], c.example[what])
		if known[what] == "" {
			c.Errorf("not known: %s", what)
		}
	}
}

func (c *comparison) difference(what, example string) {
	c.differ[what]++
	if c.example[what] == "" {
		c.example[what] = example
	}
}

// fields compares recorded fields with those of the same names: what differs, by the
// path of the field.
func fields(path string, recorded, ours any) (diffs map[string]string) {
	diffs = map[string]string{}
	switch r := recorded.(type) {
	case nil:
		// an optional field that was not there
	case map[string]any:
		o, _ := ours.(map[string]any)
		for key, value := range r {
			if _, ok := o[key]; !ok {
				diffs[path+"."+key+" is missing"] = fmt.Sprint(value)
				continue
			}
			maps.Copy(diffs, fields(path+"."+key, value, o[key]))
		}
	case []any:
		o, _ := ours.([]any)
		if len(o) != len(r) {
			diffs[path+" has another length"] = fmt.Sprintf("%d, recorded %d", len(o), len(r))
			return diffs
		}
		for i := range r {
			maps.Copy(diffs, fields(path+"[]", r[i], o[i]))
		}
	default:
		if recorded != ours {
			diffs[path] = fmt.Sprintf("%.300q, recorded %.300q", fmt.Sprint(ours), fmt.Sprint(recorded))
		}
	}
	return diffs
}

func decode(text string) map[string]any {
	var m map[string]any
	_ = json.Unmarshal([]byte(text), &m)
	return m
}

// A bench is our toolbox over a folder.
type bench struct {
	*comparison
	r    *repository
	dir  string
	tool agent.Tool
}

func (b *bench) run(k call) (map[string]any, error) {
	r, err := b.tool.Call(b.Context(), &agent.Invocation{Call: agent.ToolCall{Name: b.tool.Spec().Name, Args: k.text}})
	if err != nil {
		return nil, err
	}
	return decode(r.Text()), nil
}

func (b *bench) write(path string, content []byte) {
	file := filepath.Join(b.dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o666); err != nil {
		b.Fatal(err)
	}
}

// The recorded calls give the same results here: in a folder with the files as they were.
// A file is as the calls before left it; if it was changed otherwise, it is the version in
// the repository that has the lines of the result, or made from that result.
func TestDeveloperToolbox(t *testing.T) {
	r := open(t)
	c := newComparison(t)
	r.sessions(t, false, func(path string, data []byte) {
		b := &bench{comparison: c, r: r, dir: t.TempDir()}
		tools, err := developer.Open(developer.Options{Name: "dev", Dir: b.dir}).Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.tool = schema.Checked(tools[0])
		for _, k := range calls(t, path, data, "developer_") {
			b.replay(k)
		}
	})
	c.report(developerDifferences)
}

func (b *bench) replay(k call) {
	path, _ := k.args["path"].(string)
	if path == "" {
		path, _ = k.args["file_path"].(string)
	}
	if path != "" {
		path = strings.TrimPrefix(path, "/") // below the folder
		k.args["path"] = path
		delete(k.args, "file_path") // as the gate does
		text, _ := json.Marshal(k.args)
		k.text = string(text)
	}
	capability := fmt.Sprint(k.args["capability"])
	recorded := decode(k.result)
	if p, ok := recorded["path"].(string); ok {
		recorded["path"] = strings.TrimPrefix(p, "/")
	}
	if failure, ok := recorded["error"].(string); ok {
		b.failed(k, capability, path, failure)
		return
	}
	before, missing := os.ReadFile(filepath.Join(b.dir, path))
	what := "as the calls before left the file"
	got, err := b.run(k)
	if diffs := fields("", recorded, got); missing != nil || err != nil || len(diffs) > 0 {
		content, from := b.rebuild(path, k, recorded, before)
		b.write(path, content)
		what = from
		got, err = b.run(k)
	}
	if err != nil {
		b.difference(capability+": fails", fmt.Sprintf("%s: %v\nrecorded %.300s", k.text[:min(len(k.text), 300)], err, k.result))
		return
	}
	diffs := fields("", recorded, got)
	for d, example := range diffs {
		b.difference(capability+d, example+" "+k.text[:min(len(k.text), 200)])
	}
	if len(diffs) == 0 {
		b.counts[capability+": same result, "+what]++
	}
}

// failed makes a call that failed.
func (b *bench) failed(k call, capability, path, failure string) {
	kind := strings.Fields(strings.TrimPrefix(failure, "Developer tool error: "))[0]
	if strings.Contains(failure, "PathNotAllowed") || kind == "CapabilityNotEnabledError" {
		b.counts[capability+": was not permitted by the agent file, not repeated"]++
		return
	}
	if _, err := os.Stat(filepath.Join(b.dir, path)); err != nil && path != "" {
		if versions := b.r.versions[path]; len(versions) > 0 {
			b.write(path, b.r.blob(b.T, versions[0]))
		}
	}
	got, err := b.run(k)
	if err != nil {
		b.counts[capability+": fails too ("+kind+")"]++
		return
	}
	text, _ := json.Marshal(got)
	b.difference(capability+": succeeds, recorded "+kind, fmt.Sprintf("%.300s\nrecorded %.400s\n%.300s", k.text, failure, text))
}

// rebuild returns the contents that a file had before a call.
func (b *bench) rebuild(path string, k call, recorded map[string]any, before []byte) (content []byte, from string) {
	lines := numbered(recorded)
	count := lineCount(k, recorded)
	for _, id := range slices.Backward(b.r.versions[path]) {
		if v := b.r.blob(b.T, id); v != nil && fits(v, lines, recorded, count) {
			return v, "a version in the repository"
		}
	}
	if recorded["linesRead"] == 0.0 && count == 0 {
		return nil, "made from its result"
	}
	rows := strings.Split(strings.TrimSuffix(string(before), "\n"), "\n")
	last := count
	for n := range lines {
		last = max(last, n)
	}
	switch named := lastOf(k); {
	case count > 0:
	case k.args["capability"] == "read-file-range" && last > 0 && named > last: // the file ends there
	case k.args["capability"] == "read-file-range":
		last = max(last, len(rows))
	default:
		last = max(last, len(rows), named)
	}
	rows = append(rows, make([]string, max(0, last-len(rows)))...)[:last]
	free := -1
	for i := range rows {
		if text, ok := lines[i+1]; ok {
			rows[i] = text
		} else {
			rows[i], free = "", i
		}
	}
	content = []byte(strings.Join(rows, "\n") + "\n")
	if size, ok := recorded["totalFileSize"].(float64); ok && free >= 0 {
		rows[free] = strings.Repeat("x", max(0, int(size)-len(content)))
		content = []byte(strings.Join(rows, "\n") + "\n")
	}
	return content, "made from its result"
}

// lastOf is the last line that the ranges of a call name.
func lastOf(k call) (last int) {
	ranges, _ := k.args["ranges"].(string)
	for number := range strings.FieldsFuncSeq(ranges, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(number)
		last = max(last, n)
	}
	return last
}

// numbered are the lines of a result of read-file-range, by number.
func numbered(recorded map[string]any) map[int]string {
	lines := map[int]string{}
	text, _ := recorded["content"].(string)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		number, rest, ok := strings.Cut(line, "\t")
		if n, err := strconv.Atoi(number); ok && err == nil {
			lines[n] = rest
		}
	}
	return lines
}

// lineCount is the number of lines before a call; 0 if the result does not say.
func lineCount(k call, recorded map[string]any) int {
	if total, ok := recorded["totalLineCount"].(float64); ok {
		return int(total)
	}
	final, ok := recorded["finalLineCount"].(float64)
	if !ok {
		return 0
	}
	results, _ := recorded["rangeResults"].([]any)
	for _, r := range results {
		r, _ := r.(map[string]any)
		written, _ := r["linesWritten"].(float64)
		final -= written
		var first, last int
		if n, _ := fmt.Sscanf(fmt.Sprint(r["originalLines"]), "%d-%d", &first, &last); n == 2 && (r["operation"] == "replace" || r["operation"] == "delete") {
			final += float64(last - first + 1)
		}
	}
	return int(final)
}

// fits reports whether a version of a file has the lines of a result.
func fits(v []byte, lines map[int]string, recorded map[string]any, count int) bool {
	rows := strings.Split(strings.TrimSuffix(string(v), "\n"), "\n")
	if count > 0 && len(rows) != count {
		return false
	}
	if size, ok := recorded["totalFileSize"].(float64); ok && len(v) != int(size) {
		return false
	}
	for n, text := range lines {
		if n > len(rows) || rows[n-1] != text {
			return false
		}
	}
	return len(lines) > 0 || count > 0
}

// developerDifferences are the known ones, with the reasons.
var developerDifferences = map[string]string{
	"write-file-range: succeeds, recorded ValidationError": "file_path is another name of path: models write it",
	"write-file-range.linesWritten":                        "a line --- that separates two blocks in content is not counted",
}
