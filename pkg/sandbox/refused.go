package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxRefused is how many deniedTexts are said about one call.
const maxRefused = 5

// Refused says which accesses the sandbox has probably refused to a program that failed,
// a line each: `sandbox: write to /etc/hosts is outside "write"`. The lines go to
// Place.Log too. They are derived from what the program printed on stderr: a path on a line
// with one of the system's messages for a refusal, if the sandbox does not permit the path.
// An access is missed if the program prints no error, prints it in another language, or
// does not name the path.
func (b *Box) Refused(stderr string) []string {
	var said []string
	add := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if len(said) < maxRefused && !slices.Contains(said, line) {
			said = append(said, line)
			b.log(line)
		}
	}
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		lower := strings.ToLower(line)
		has := func(texts ...string) bool {
			return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(lower, t) })
		}
		if n := b.config.Network; n != nil && !n.All && len(n.Domains) == 0 &&
			has("network is unreachable", "could not resolve", "name resolution", "no such host", "address family not supported", "name or service not known") {
			add(`sandbox: the network is "none"`)
		}
		missing := has("no such file") // as a file in a hidden folder may be to root
		if !missing && !has(deniedTexts...) {
			continue
		}
		found := false
		for _, path := range paths(b.place.Dir, line) {
			switch real := realPath(path); {
			case below(real, "/proc"): // refused without a sandbox too
			case missing && (b.config.Read == nil || b.secret(real) == ""):
			case b.config.Read != nil && (!b.covers(b.readable(""), real)):
				add(`sandbox: %s is outside "read"`, path)
				found = true
			case !missing && slices.ContainsFunc(b.lately().exist, func(p string) bool { return below(real, p) || below(path, p) }):
				add(`sandbox: %s decides what is executed and is read-only, because "write" does not name it`, path)
				found = true
			case b.config.Write != nil && !b.covers(slices.Concat(b.config.Write, devices), real) && !strings.Contains(real, "/agents-tmp-"):
				add(`sandbox: write to %s is outside "write"`, path)
				found = true
			}
		}
		if n := b.config.Network; !found && n != nil && !n.All && len(n.Domains) == 0 && has("socket", "connect") {
			add(`sandbox: the network is "none"`)
		}
	}
	return said
}

// deniedTexts are the system's messages for a refused access.
var deniedTexts = []string{"permission denied", "read-only file system", "operation not permitted", "eacces", "eperm", "erofs"}

// paths are the words of a line that look like paths, absolute. A name without a slash
// counts next to the message: "cannot create out: Permission denied".
func paths(dir, line string) []string {
	const around = " \t\r\n'\"`‘’“”:;,()[]<>="
	var found []string
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(around, r) }) {
		word = strings.TrimRight(word, ".")
		if strings.Contains(word, "/") && !strings.Contains(word, "//") && len(word) > 1 {
			found = append(found, word)
		}
	}
	if len(found) > 0 && strings.HasPrefix(line, found[0]+":") { // the program that says it
		found = found[1:]
	}
	if len(found) == 0 {
		for _, message := range deniedTexts {
			at := strings.Index(strings.ToLower(line), message)
			if at < 0 {
				continue
			}
			before := strings.FieldsFunc(line[:at], func(r rune) bool { return strings.ContainsRune(around, r) })
			after := strings.FieldsFunc(line[at+len(message):], func(r rune) bool { return strings.ContainsRune(around, r) })
			if len(after) > 0 { // Python, Node
				found = after[:1]
			} else if len(before) > 0 {
				found = before[len(before)-1:]
			}
			break
		}
	}
	for i, word := range found {
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		found[i] = filepath.Clean(word)
	}
	return found
}
