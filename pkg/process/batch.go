package process

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// What Windows does not execute by itself: scripts, which name their interpreter, and batch
// files, which cmd.exe executes with rules of its own for the arguments.

// scriptLine returns the interpreter that the first line of a script names, with the arguments
// before the script's name, nil if head is not the beginning of a script. It does what env does.
func scriptLine(head []byte) ([]string, error) {
	text, isScript := strings.CutPrefix(string(head), "#!")
	if !isScript {
		return nil, nil
	}
	line, _, whole := strings.Cut(text, "\n")
	line = strings.TrimSpace(line)
	name, arg := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		name, arg = line[:i], strings.TrimSpace(line[i:])
	}
	words := []string{name}
	if arg != "" {
		words = append(words, arg) // one argument, as on Linux
	}
	if strings.TrimSuffix(path.Base(name), ".exe") == "env" {
		words = []string{arg}
		if split, ok := strings.CutPrefix(arg, "-S"); ok {
			words = strings.Fields(split)
			if strings.ContainsAny(split, `"'\$#`) {
				return nil, fmt.Errorf("its #! line is not understood: %s", line)
			}
		}
		if len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			return nil, fmt.Errorf("its #! line is not understood: %s", line)
		}
	}
	switch {
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("its #! line names no interpreter")
	case !whole && len(head) == headBytes:
		return nil, errors.New("its #! line is too long")
	}
	return words, nil
}

// checkName refuses the names under which Windows opens a file of another name, so that the
// extension does not say what it is: x.cmd., "x.cmd " and x.cmd::$DATA are x.cmd.
func checkName(file string) error {
	name := file[len(filepath.VolumeName(file)):]
	if strings.Contains(name, ":") || strings.TrimRight(name, ". ") != name {
		return errors.New("its name ends in a dot or a space, or contains a colon; Windows opens another file for it")
	}
	return nil
}

func isBatch(file string) bool {
	ext := filepath.Ext(file)
	return strings.EqualFold(ext, ".bat") || strings.EqualFold(ext, ".cmd")
}

// maxBatchLine is the limit of cmd.exe.
const maxBatchLine = 8191

// batchLine returns the command line with which cmd.exe, whose path is shell, executes the batch
// file argv[0]. A batch file usually inserts its arguments as text into commands, so quotes do
// not protect them there: arguments that cmd.exe could change or execute are errors.
func batchLine(shell string, argv []string) (string, error) {
	line := []string{`"` + shell + `" /d /e:on /v:off /s /c ""` + argv[0] + `"`}
	if strings.ContainsAny(argv[0], `%"`) {
		return "", errors.New("its path contains %, which cmd.exe replaces")
	}
	for i, arg := range argv[1:] {
		bare := arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
			return !(r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune(`#$*+-./:?@\_`, r))
		})
		switch at := strings.IndexFunc(arg, func(r rune) bool { return strings.ContainsRune(`"%!^&|<>()`, r) || unicode.IsControl(r) }); {
		case at >= 0:
			return "", fmt.Errorf("argument %d contains %q, which cmd.exe could change or execute; a batch file gets no argument with a line break, another control character or one of \" %% ! ^ & | < > ( )", i+1, []rune(arg[at:])[0])
		case !bare && strings.HasSuffix(arg, `\`):
			return "", fmt.Errorf(`argument %d ends in \, which a program that the batch file starts could join with the quote that follows`, i+1)
		case bare:
			line = append(line, arg)
		default:
			line = append(line, `"`+arg+`"`)
		}
	}
	whole := strings.Join(line, " ") + `"`
	if len(whole) > maxBatchLine {
		return "", fmt.Errorf("the command line has %d bytes; the limit of cmd.exe is %d", len(whole), maxBatchLine)
	}
	return whole, nil
}

// uniqueEnviron returns env with the last of several entries for one name, without regard to
// case, and with the variable that Windows needs to start most programs.
func uniqueEnviron(env []string, systemRoot string) []string {
	seen := map[string]bool{}
	var list []string
	for _, kv := range slices.Backward(append([]string{"SYSTEMROOT=" + systemRoot}, env...)) {
		name, _, _ := strings.Cut(kv, "=")
		if name = strings.ToUpper(name); !seen[name] {
			seen[name] = true
			list = append(list, kv)
		}
	}
	slices.Reverse(list)
	return list
}
