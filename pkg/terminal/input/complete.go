package input

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Complete returns what may follow the text before the cursor: candidates for the text
// from start on. args are the possible arguments of a command.
func Complete(before string, args func(command string) []string) (start int, candidates []string) {
	if rest, ok := strings.CutPrefix(before, "/"); ok && !strings.ContainsAny(rest, "/\n") {
		name, typed, found := strings.Cut(rest, " ")
		if !found {
			for _, c := range Commands() {
				if strings.HasPrefix(c.Name, name) {
					candidates = append(candidates, "/"+c.Name+strings.Repeat(" ", min(len(c.Args), 1)))
				}
			}
			return 0, candidates
		}
		switch name {
		case "save":
			candidates = files(typed)
		case "budget":
			candidates = []string{"usd=", "inputTokens=", "outputTokens=", "turns=", "calls=", "seconds="}
		default:
			candidates = args(name)
		}
		slices.Sort(candidates)
		return len(before) - len(typed), slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, typed) })
	}
	i := strings.LastIndexByte(before, '@')
	if i < 0 || i > 0 && !strings.ContainsRune(" \t\n(", rune(before[i-1])) {
		return 0, nil
	}
	typed, quoted := strings.CutPrefix(before[i+1:], `"`)
	if !quoted && strings.ContainsAny(typed, " \t\n") {
		return 0, nil
	}
	for _, path := range files(typed) {
		if (quoted || strings.Contains(path, " ")) && !strings.HasSuffix(path, "/") {
			path = `"` + path + `"`
		} else if quoted || strings.Contains(path, " ") {
			path = `"` + path
		}
		candidates = append(candidates, "@"+path)
	}
	return i, candidates
}

// Common is the longest text with which all candidates begin.
func Common(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	common := []rune(candidates[0])
	for _, c := range candidates[1:] {
		n := 0
		for _, r := range c {
			if n == len(common) || common[n] != r {
				break
			}
			n++
		}
		common = common[:n]
	}
	return string(common)
}

// files are the paths that begin with what is typed; folders end in a slash.
func files(typed string) []string {
	dir, base := filepath.Split(typed)
	entries, _ := os.ReadDir(cmp.Or(ExpandHome(dir), ".")) // a folder that cannot be read has none
	var list []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), base) || base == "" && e.Name()[0] == '.' || strings.ContainsAny(e.Name(), "\"\n") {
			continue
		}
		path := dir + e.Name()
		if info, err := os.Stat(ExpandHome(path)); err == nil && info.IsDir() {
			path += "/"
		}
		list = append(list, path)
	}
	return list
}
