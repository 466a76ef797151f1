package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// parsed is what the rules have made of the arguments of a call.
type parsed struct {
	split    bool // commands is known: nil if there are none
	commands *commands
	// places are the paths that were resolved. All rules judge the same place, even if a link
	// changes meanwhile.
	places map[string]place
}

// A place is where a path leads.
type place struct {
	real string
	err  error
}

func parsedOf(inv *agent.Invocation) *parsed {
	p, ok := inv.Parsed.(*parsed)
	if !ok {
		p = &parsed{}
		inv.Parsed = p
	}
	return p
}

func (p *parsed) resolve(path string) (string, error) {
	at, known := p.places[path]
	if !known {
		at.real, at.err = resolve(path)
		if p.places == nil {
			p.places = map[string]place{}
		}
		p.places[path] = at
	}
	return at.real, at.err
}

// inside reports whether a path that a tool with the working directory dir receives is in a
// folder. Some tools follow links before they remove "..", others after. For an allow rule
// (strict), the path must be inside both ways; for others, one of the two is enough, or the
// path as it is written.
func (p *parsed) inside(path, folder, dir string, strict bool) (fit, error) {
	switch {
	case strings.ContainsRune(path, 0):
		return failed, errors.New("it has a NUL character")
	case strings.Contains(path, "://"):
		return failed, errors.New("it is a URL, not a path")
	case strings.HasPrefix(path, "~") && strict:
		return no, nil // some tools replace it
	case !filepath.IsAbs(path) && (filepath.VolumeName(path) != "" || path != "" && os.IsPathSeparator(path[0])):
		return failed, errors.New("it is relative to the folder that is current on a drive of Windows")
	case !filepath.IsAbs(path) && dir == "":
		return failed, errors.New("it is relative, and the tool's working directory is not known")
	case !filepath.IsAbs(path):
		path = dir + "/" + path
	}
	real, err := p.resolve(folder)
	if err != nil {
		return failed, err
	}
	one, err := p.resolve(path)
	if err != nil {
		return failed, err
	}
	two, err := p.resolve(filepath.Clean(path))
	if err != nil {
		return failed, err
	}
	a, b := within(one, real, strict), within(two, real, strict)
	if strict && a && b || !strict && (a || b || within(filepath.Clean(path), folder, false)) {
		return yes, nil
	}
	return no, nil
}

// withoutLinks returns the path that a tool with the working directory dir receives as it is, if
// no link is in it below dir, and otherwise where it leads.
func (p *parsed) withoutLinks(path, dir string) string {
	top, full := filepath.VolumeName(path)+separator, path
	switch {
	case filepath.IsAbs(path):
	case dir == "":
		return path
	default:
		top, full = dir, dir+"/"+path
	}
	top, err := p.resolve(top)
	real, fail := p.resolve(full)
	// A rule that allows does not match ~, and a tool that replaces it must see it.
	if cmp.Or(err, fail) != nil || real == filepath.Join(top, path) || strings.HasPrefix(path, "~") {
		return path
	}
	return real
}

// judgedPaths returns the arguments with the paths that conditions of the rules compare as they
// were judged; "" if they are that already. found reports whether there are any.
func judgedPaths(inv *agent.Invocation, rules [][]*Rule, args string) (changed string, found bool, err error) {
	p := parsedOf(inv)
	if p.places == nil { // no path was judged
		return "", false, nil
	}
	original := args
	for _, set := range rules {
		for _, r := range set {
			for i := range r.conditions {
				c := &r.conditions[i]
				if c.Inside == "" || !r.concerns(inv) {
					continue
				}
				paths, _ := collect(nil, inv.Values(), c.at(inv))
				for _, v := range paths {
					path, ok := v.(string)
					if !ok {
						continue
					}
					found = true
					if real := p.withoutLinks(path, inv.Dir); real != path {
						if args, err = replaceText(args, c.at(inv), path, real); err != nil {
							return "", true, err
						}
					}
				}
			}
		}
	}
	if args == original {
		return "", found, nil
	}
	return args, found, nil
}

// replaceText replaces a text in JSON where a pointer finds it.
func replaceText(text string, tokens []string, old, with string) (string, error) {
	doc, err := jsondoc.Parse([]byte(text), jsondoc.Options{})
	if err != nil {
		return "", err
	}
	to, err := jsondoc.Encode(with, "")
	if err != nil {
		return "", err
	}
	nodes := nodesAt(nil, doc.Root, tokens)
	for i := len(nodes) - 1; i >= 0; i-- { // from the end, so that the places stay right
		if n := nodes[i]; n.Kind() == "string" && n.Text() == old {
			text = text[:n.Start] + string(to) + text[n.End:]
		}
	}
	return text, nil
}

// nodesAt is collect for nodes, in the order of the text.
func nodesAt(to []*jsondoc.Node, n *jsondoc.Node, tokens []string) []*jsondoc.Node {
	for i, child := range n.Children {
		switch {
		case len(tokens) > 0 && (tokens[0] == "*" || n.Kind() == "object" && child.Name == tokens[0] || n.Kind() == "array" && strconv.Itoa(i) == tokens[0]):
			to = nodesAt(to, child, tokens[1:])
		case len(tokens) == 0 && n.Kind() == "array":
			to = nodesAt(to, child, nil)
		}
	}
	if len(tokens) == 0 && n.Kind() != "array" {
		to = append(to, n)
	}
	return to
}

const separator = string(filepath.Separator)

// within reports whether a path is a folder or below it. macOS and Windows ignore case.
func within(path, folder string, strict bool) bool {
	if (runtime.GOOS == "darwin" || runtime.GOOS == "windows") && !strict {
		path, folder = strings.ToLower(path), strings.ToLower(folder)
	}
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, separator)+separator)
}

// checkNames refuses what Windows opens under another name: devices, streams of files, names
// that end in dots or spaces, and short names.
func checkNames(path string) error {
	volume := filepath.VolumeName(path)
	bad := strings.HasPrefix(path, "//?") || strings.HasPrefix(path, "//.") || strings.ContainsAny(path[len(volume):], ":~")
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part != "." && part != ".." && strings.TrimRight(part, ". ") != part
	}
	if bad {
		return fmt.Errorf("%s: Windows may open a file of another name for it", path)
	}
	return nil
}

// resolve follows all links in an absolute path, including links to paths that do not exist
// yet. Unlike filepath.EvalSymlinks it accepts a path whose last parts do not exist.
func resolve(path string) (string, error) {
	const most = 255 // links, as in package filepath
	if runtime.GOOS == "windows" {
		path = filepath.ToSlash(path)
		if err := checkNames(path); err != nil {
			return "", err
		}
	}
	volume := filepath.VolumeName(path)
	done, links := filepath.Clean(volume+"/"), 0
	rest := strings.Split(path[len(volume):], "/")
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
		if done == "/proc" && (part == "self" || part == "thread-self" || strings.Trim(part, "0123456789") == "") {
			return "", fmt.Errorf("%s: its meaning depends on the process that opens it", path)
		}
		next := filepath.Join(done, part)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
			done = next
			continue
		case err != nil:
			return "", err
		case info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) == 0: // a junction of Windows is irregular
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
		target = filepath.ToSlash(target)
		if volume := filepath.VolumeName(target); filepath.IsAbs(target) {
			done, target = filepath.Clean(volume+"/"), target[len(volume):]
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}
