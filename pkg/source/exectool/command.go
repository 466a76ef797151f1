package exectool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
)

// maxCommand limits the arguments of one command line together: each counts
// with the byte that ends it and the pointer to it. Linux permits 2 MiB for
// them and the environment.
const maxCommand = 2_000_000

// Command translates a model's arguments into what follows `<tool> run` on the
// command line, and into standard input. The order is that of the description.
//
// An absent or null optional argument gives nothing, but where a later
// positional is present an absent positional gives an empty string, so that
// positions do not shift. Values on standard input are each followed by a
// newline, with one empty line between two of them; stdin is nil if there is
// none.
//
// What cannot be passed on unchanged is refused: a value that looks like an
// option (the dash rule), a NUL byte in any mode (few tools keep one, even from
// standard input), and what is longer than the system's limits. So is an unknown
// argument, a missing one, and one of another type than the description says.
// allowDash switches the dash rule off for every argument. The error tells the model about all of them, and what to do.
func (d *Description) Command(args map[string]json.RawMessage, allowDash bool) (argv []string, stdin []byte, err error) {
	if d.Input != nil {
		stdin, err = jsondoc.Encode(args, "") // unescaped, as the model wrote it
		return []string{"--args=-"}, stdin, err
	}
	values, err := d.values(args, allowDash)
	if err != nil {
		return nil, nil, err
	}
	last := -1 // the last positional that is present
	for i := range d.Args {
		if d.Args[i].Mode == Positional && values[i] != nil {
			last = i
		}
	}
	total := 0
	add := func(arg string) {
		argv = append(argv, arg)
		total += len(arg) + 1 + 8
	}
	for i := range d.Args {
		a, v := &d.Args[i], values[i]
		switch {
		case v == nil && a.Mode == Positional && i < last:
			add("")
		case v == nil:
		case a.Mode == Positional:
			add(*v)
		case a.Mode == DashDashSpace:
			add("--" + a.Name)
			add(*v)
		case a.Mode == DashDashEqual:
			add("--" + a.Name + "=" + *v)
		case a.Mode == Stdin:
			if stdin != nil {
				stdin = append(stdin, '\n')
			}
			stdin = append(append(stdin, *v...), '\n')
		}
	}
	if total > maxCommand {
		return nil, nil, fmt.Errorf("the arguments are %d bytes long together and a command line can hold %d; send less at once, or put the values into a file and give its name", total, maxCommand)
	}
	return argv, stdin, nil
}

// values is the text of each argument of d, nil for those that are absent.
func (d *Description) values(args map[string]json.RawMessage, allowDash bool) ([]*string, error) {
	var problems []error
	values := make([]*string, len(d.Args))
	for i := range d.Args {
		a := &d.Args[i]
		text, err := d.value(a, args[a.Name], allowDash)
		if err != nil {
			problems = append(problems, fmt.Errorf("argument %s: %w", a.Name, err))
		}
		values[i] = text
	}
	var unknown []string
	for name := range args {
		if !hasArg(d.Args, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		problems = append(problems, fmt.Errorf("argument %s: there is none of this name; there are: %s", show([]byte(name)), d.names()))
	}
	if len(problems) > 10 {
		problems = append(problems[:10:10], fmt.Errorf("and %d more", len(problems)-10))
	}
	return values, errors.Join(problems...)
}

func (d *Description) names() string {
	if len(d.Args) == 0 {
		return "no arguments at all"
	}
	names := make([]string, 0, len(d.Args))
	for i := range d.Args {
		names = append(names, d.Args[i].Name)
	}
	return strings.Join(names, ", ")
}

// value is the text for one argument, nil if it is absent.
func (d *Description) value(a *Arg, raw json.RawMessage, allowDash bool) (*string, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || string(raw) == "null" {
		if a.Optional {
			return nil, nil
		}
		return nil, errors.New("it is required and missing")
	}
	if !fits(a.Backing, raw) {
		return nil, fmt.Errorf("it must be of type %s, not %s: %s", a.Backing, kindOf(raw), show(raw))
	}
	text, err := agent.ArgText(raw)
	if err != nil {
		return nil, err
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return nil, fmt.Errorf("it holds a NUL byte (at byte %d), which cannot be passed to a program; leave it out or encode it", at)
	}
	if a.Mode == Stdin {
		return &text, nil
	}
	size := len(text)
	if a.Mode == DashDashEqual {
		size += len("--=") + len(a.Name)
	}
	if size > toolenv.MaxEntry {
		return nil, fmt.Errorf("it is %d bytes long and one argument can have %d; send less at once, or put the value into a file and give its name", size, toolenv.MaxEntry)
	}
	if a.Mode != DashDashEqual && !a.AllowDash && !allowDash && looksLikeOption(text) {
		return nil, d.dashError(text)
	}
	return &text, nil
}

// looksLikeOption reports whether a program may take the value for an option:
// it begins with a dash and is neither a number as a whole, nor a dash alone or
// before white space. A digit behind the dash is not enough: getopt reads -4oX as
// -4 -oX.
func looksLikeOption(text string) bool {
	rest, ok := strings.CutPrefix(text, "-")
	if !ok || rest == "" || strings.IndexByte(" \t\r\n\f", rest[0]) >= 0 {
		return false
	}
	if strings.Trim(rest, "0123456789.eE+-") != "" || strings.ContainsRune("+-", rune(rest[0])) {
		return true
	}
	_, err := strconv.ParseFloat(rest, 64)
	return errors.Is(err, strconv.ErrSyntax)
}

// dashError tells the model how to write a value that looks like an option.
func (d *Description) dashError(text string) error {
	var free []string
	for i := range d.Args {
		if m := d.Args[i].Mode; m == DashDashEqual || m == Stdin {
			free = append(free, d.Args[i].Name)
		}
	}
	other := `the tool's author can permit it with the mode dashdashequal or stdin, or with "allow_dash": true`
	if len(free) > 0 {
		other = "these arguments take anything: " + strings.Join(free, ", ")
	}
	return fmt.Errorf("%s looks like an option, which the tool might obey, and is refused; write it differently (a file as %s), or use another mode: %s",
		show([]byte(text)), show([]byte("./"+text)), other)
}

// lockNames are the names of the locks of a call, with its arguments filled in,
// sorted and each once. "{arg}" of an absent argument is empty. terminal is the path of the
// person's terminal.
func (d *Description) lockNames(args map[string]json.RawMessage, terminal string) []string {
	var names []string
	for _, lock := range d.Locks {
		names = append(names, toolenv.LockOf(fillLock(lock, args), terminal))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fillLock puts the arguments into a lock's name.
func fillLock(lock string, args map[string]json.RawMessage) string {
	return replaceBraces(lock, func(name string) string {
		if raw := args[name]; len(raw) > 0 && string(raw) != "null" {
			text, _ := agent.ArgText(raw) // "" for what has no text
			return text
		}
		return ""
	})
}

// replaceBraces returns lock with value(name) in place of each {name}, in one pass.
func replaceBraces(lock string, value func(name string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(lock, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			b.WriteString("{" + rest)
			return b.String()
		}
		b.WriteString(value(name))
		lock = after
	}
}
