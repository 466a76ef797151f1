package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/agent"
)

// A fit says whether a rule matches a call.
type fit int

// The fits. failed means that the rule could not be evaluated, which denies the call.
// maybe counts as a match, unless another process makes the call.
const (
	no fit = iota
	maybe
	yes
	failed
)

// A condition is a Condition for one argument.
type condition struct {
	Condition
	pointer string
	tokens  []string
	glob    glob
	regexp  *regexp.Regexp
	numbers []float64 // of OneOf
}

// An unfit is the argument that could not be compared, and why.
type unfit struct {
	pointer string
	err     error
}

func (u *unfit) Error() string { return "argument " + u.pointer + ": " + u.err.Error() }

// fits compares the argument. With strict, for allow rules, every value must match;
// otherwise one is enough. The error says why the fit is failed.
func (c *condition) fits(inv *agent.Invocation, strict bool) (fit, error) {
	values := inv.Values()
	if len(c.tokens) == 1 { // a plain value, as most are
		name := c.tokens[0]
		if values[name] == nil && inv.Spec.IsAgent() { // the prompt has two names
			name = cmp.Or(map[string]string{"prompt": "what", "what": "prompt"}[name], name)
		}
		switch v := values[name].(type) {
		case string, json.Number, bool:
			f, err := c.fitsValue(v, inv, strict)
			if f == failed {
				err = &unfit{c.pointer, err}
			}
			return f, err
		}
	}
	found, missing := collect(nil, values, c.tokens)
	if len(found) == 0 || missing && strict {
		return no, nil
	}
	result := no
	if strict {
		result = yes
	}
	for _, v := range found {
		f, err := c.fitsValue(v, inv, strict)
		switch {
		case f == failed:
			return failed, &unfit{c.pointer, err}
		case strict:
			result = min(result, f)
		default:
			result = max(result, f)
		}
	}
	return result, nil
}

// collect adds the values that a pointer names: the items of a list one by one, and all
// members for "*". missing reports that a part of the pointer does not exist.
func collect(to []any, v any, tokens []string) (found []any, missing bool) {
	if len(tokens) == 0 {
		list, ok := v.([]any)
		if !ok {
			return append(to, v), false
		}
		for _, item := range list {
			to, _ = collect(to, item, nil)
		}
		return to, false
	}
	var next []any
	switch v := v.(type) {
	case map[string]any:
		if m, ok := v[tokens[0]]; ok {
			next = []any{m}
		} else if tokens[0] == "*" {
			for _, m := range v {
				next = append(next, m)
			}
		}
	case []any:
		if i, err := strconv.Atoi(tokens[0]); err == nil && i >= 0 && i < len(v) {
			next = v[i : i+1]
		} else if tokens[0] == "*" {
			next = v
		}
	}
	missing = len(next) == 0
	for _, m := range next {
		var lacks bool
		to, lacks = collect(to, m, tokens[1:])
		missing = missing || lacks
	}
	return to, missing
}

func (c *condition) fitsValue(v any, inv *agent.Invocation, strict bool) (fit, error) {
	text, isText := v.(string)
	if !isText {
		switch v := v.(type) {
		case json.Number:
			text = v.String()
		case bool:
			text = strconv.FormatBool(v)
		case nil:
			text = "null"
		default:
			return failed, errors.New("it is an object, which no condition compares")
		}
	}
	if c.Glob != "" && !c.glob.match(text) || c.regexp != nil && !c.regexp.MatchString(text) || len(c.OneOf) > 0 && !c.isOne(v) {
		return no, nil
	}
	if c.Min != nil || c.Max != nil {
		n, ok := v.(json.Number)
		if !ok || !isNumber(n) {
			return failed, errors.New("it is not a number")
		}
		if c.Min != nil && compare(n, *c.Min) < 0 || c.Max != nil && compare(n, *c.Max) > 0 {
			return no, nil
		}
	}
	if c.Inside == "" {
		return yes, nil
	}
	if !isText {
		return failed, errors.New("it is not a path")
	}
	if inv.Remote { // its files may differ from those here
		if filepath.IsAbs(text) && within(filepath.Clean(text), c.Inside, strict) {
			return yes, nil
		}
		return maybe, nil
	}
	return inside(text, c.Inside, inv.Dir, strict)
}

func (c *condition) isOne(v any) bool {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		return err == nil && slices.Contains(c.numbers, f)
	}
	return slices.Contains(c.OneOf, v)
}

func isNumber(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// compare compares whole numbers exactly and others as float64.
func compare(a, b json.Number) int {
	i, errA := a.Int64()
	j, errB := b.Int64()
	if errA == nil && errB == nil {
		return cmpOf(i, j)
	}
	f, _ := a.Float64() // isNumber
	g, _ := b.Float64()
	return cmpOf(f, g)
}

func cmpOf[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// inside reports whether a path that a tool with the working directory dir receives is in a
// folder. Some tools follow links before they remove "..", others after. For an allow rule
// (strict), the path must be inside both ways; for others, one of the two is enough, or the
// path as it is written.
func inside(path, folder, dir string, strict bool) (fit, error) {
	switch {
	case strings.ContainsRune(path, 0):
		return failed, errors.New("it has a NUL character")
	case strings.Contains(path, "://"):
		return failed, errors.New("it is a URL, not a path")
	case strings.HasPrefix(path, "~") && strict:
		return no, nil // some tools replace it
	case !filepath.IsAbs(path) && dir == "":
		return failed, errors.New("it is relative, and the tool's working directory is not known")
	case !filepath.IsAbs(path):
		path = dir + "/" + path
	}
	real, err := resolve(folder)
	if err != nil {
		return failed, err
	}
	one, err := resolve(path)
	if err != nil {
		return failed, err
	}
	two, err := resolve(filepath.Clean(path))
	if err != nil {
		return failed, err
	}
	a, b := within(one, real, strict), within(two, real, strict)
	if strict && a && b || !strict && (a || b || within(filepath.Clean(path), folder, false)) {
		return yes, nil
	}
	return no, nil
}

// within reports whether a path is a folder or below it. macOS ignores case.
func within(path, folder string, strict bool) bool {
	if runtime.GOOS == "darwin" && !strict {
		path, folder = strings.ToLower(path), strings.ToLower(folder)
	}
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// resolve follows all links in an absolute path, including links to paths that do not exist
// yet. Unlike filepath.EvalSymlinks it accepts a path whose last parts do not exist.
func resolve(path string) (string, error) {
	const most = 255 // links, as in package filepath
	done, links := "/", 0
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
			done = next
			continue
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > most {
			return "", fmt.Errorf("%s: too many links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}
