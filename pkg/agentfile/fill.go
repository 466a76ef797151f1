package agentfile

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// isProgram reports whether an agent file begins with a #! line, which makes it
// a program that runs itself.
func isProgram(data []byte) bool { return bytes.HasPrefix(data, []byte("#!")) }

// blankFirstLine returns the JSON of a program: blanks replace its #! line, so that
// lines and columns stay the same.
func blankFirstLine(data []byte) []byte {
	if !isProgram(data) {
		return data
	}
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		end = len(data)
	}
	return append(bytes.Repeat([]byte(" "), end), data[end:]...)
}

// placeholder matches ${name} and ${name:-default}; with another $ before it, it is text.
// It is compiled when needed: most files have none.
var placeholder = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
})

// fill replaces the placeholders in a text by values, in one pass: placeholders in values
// are not replaced. A name without a value takes its default; a name with neither stays as
// it is and is returned in missing. Names that had a value are added to used.
func fill(text string, values map[string]string, used map[string]bool) (filled string, missing []string) {
	filled = placeholder().ReplaceAllStringFunc(text, func(match string) string {
		if strings.HasPrefix(match, "$$") {
			return match[1:]
		}
		parts := placeholder().FindStringSubmatch(match)
		name := parts[1]
		if value, ok := values[name]; ok {
			used[name] = true
			return value
		}
		if parts[2] != "" {
			return parts[3]
		}
		missing = append(missing, name)
		return match
	})
	slices.Sort(missing)
	return filled, slices.Compact(missing)
}

// fillPrompts fills the placeholders in the root file's prompts, if the file is a program
// or a value is given. In any other file, ${…} is plain text.
func (l *loader) fillPrompts(f *File) bool {
	if !f.program && len(l.opts.Set) == 0 {
		return true
	}
	ok := true
	used := map[string]bool{}
	for key, text := range map[string]*string{"systemPrompt": (*string)(&f.Spec.SystemPrompt), "announce": &f.Spec.Announce} {
		filled, missing := fill(*text, l.opts.Set, used)
		*text = filled
		for _, name := range missing {
			if f.program {
				l.report(f.problem(Fatal, CodeSet, f.at(key), "${%s} has neither a value nor a default", name))
				ok = false
			}
		}
	}
	for name := range l.opts.Set {
		if !used[name] {
			l.report(Problem{Severity: Fatal, Code: CodeSet, File: f.Path, Message: "there is no ${" + name + "} in its prompts"})
			ok = false
		}
	}
	return ok
}
