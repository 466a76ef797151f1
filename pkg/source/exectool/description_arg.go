package exectool

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

func (p *parser) args(obj *object, d *Description) error {
	var list []json.RawMessage
	if err := obj.value("args", true, "an array", &list); err != nil {
		return fmt.Errorf("%w ([] if the tool takes no arguments)", err)
	}
	if len(list) > MaxArgs {
		return fmt.Errorf("args: %d arguments; the limit is %d", len(list), MaxArgs)
	}
	seen := make(map[string]bool, len(list))
	for i, raw := range list {
		arg, err := p.arg(raw, i)
		if err != nil {
			return err
		}
		if seen[arg.Name] {
			return fmt.Errorf("args: %q is there twice", arg.Name)
		}
		seen[arg.Name] = true
		d.Args = append(d.Args, arg)
	}
	return nil
}

// arg reads one argument. Errors name it, or its place while it has no name.
func (p *parser) arg(raw json.RawMessage, i int) (Arg, error) {
	var a Arg
	obj, err := parseObject(raw)
	if err != nil {
		return a, fmt.Errorf("args: number %d: %w", i+1, err)
	}
	if err := obj.text("name", true, &a.Name); err != nil {
		return a, fmt.Errorf("args: number %d: %w", i+1, err)
	}
	err = firstError(
		func() error { return p.argName(a.Name) },
		func() error { return obj.text("description", true, &a.Description) },
		func() error { return obj.text("type", false, &a.Type) },
		func() error { return p.argKind(obj, &a) },
		func() error { return obj.value("allow_dash", false, "true or false", &a.AllowDash) },
		func() error { return p.argSchema(obj, &a) },
	)
	if err != nil {
		return a, fmt.Errorf("argument %q: %w", a.Name, err)
	}
	switch takesAnything := a.Mode == DashDashEqual || a.Mode == Stdin; {
	case takesAnything && a.AllowDash:
		p.note("argument %q: allow_dash has no meaning in mode %s, which takes anything", a.Name, a.Mode)
	case !takesAnything && !a.AllowDash && a.isFreeText():
		p.note("argument %q: in mode %s a text that looks like an option is refused; dashdashequal and stdin take anything", a.Name, a.Mode)
	}
	for _, key := range obj.unused() {
		p.note("argument %q: unknown field %q is ignored", a.Name, key)
	}
	return a, nil
}

// isFreeText guesses from the type whether values are whatever a model writes,
// rather than names of something.
func (a *Arg) isFreeText() bool {
	if a.Backing != "string" || a.Enum != nil {
		return false
	}
	kind := strings.ToLower(a.Type)
	for _, word := range []string{"text", "string", "prompt", "message", "question", "query", "pattern", "regex", "markdown"} {
		if strings.Contains(kind, word) {
			return true
		}
	}
	return false
}

func (p *parser) argName(name string) error {
	if name == "" || len(name) > 256 {
		return fmt.Errorf("name: its length must be 1 to 256 bytes")
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("name: it holds the control character %U", r)
		}
	}
	plain := strings.ReplaceAll(name, ".", "_")
	if !toolname.Valid(plain) || len(name) > toolname.Max || name[0] == '-' {
		p.note("argument %q: a name that not every model accepts; letters, digits, _ and - (not at the beginning), at most %d, are safe", name, toolname.Max)
	}
	return nil
}

// argKind reads backing_type, arity and mode, and takes the defaults where
// they are missing.
func (p *parser) argKind(obj *object, a *Arg) error {
	required := true
	if err := obj.value("required", false, "true or false", &required); err != nil {
		return err
	}
	if err := p.choice(obj, a.Name, "backing_type", "string", &a.Backing,
		"string", "integer", "number", "boolean", "array", "object"); err != nil {
		return err
	}
	var arity string
	def := "single"
	if !required {
		def = "optional"
	}
	if err := p.choice(obj, a.Name, "arity", def, &arity, "single", "optional"); err != nil {
		return err
	}
	a.Optional = arity == "optional"
	return p.choice(obj, a.Name, "mode", string(Positional), (*string)(&a.Mode),
		string(Positional), string(DashDashSpace), string(DashDashEqual), string(Stdin))
}

// argSchema reads what is passed on to the model as it is.
func (p *parser) argSchema(obj *object, a *Arg) error {
	if obj.has("enum") {
		var list []json.RawMessage
		if err := obj.value("enum", false, "an array of values", &list); err != nil {
			return err
		}
		if len(list) == 0 || len(list) > MaxEnum {
			return fmt.Errorf("enum: %d values; 1 to %d are valid", len(list), MaxEnum)
		}
		for _, v := range list {
			if !fits(a.Backing, v) {
				p.note("argument %q: enum: %s is of another type than backing_type %s", a.Name, strings.Join(strings.Fields(string(v)), " "), a.Backing)
			}
		}
	}
	if obj.has("items") {
		if items := obj.take("items"); items[0] != '{' && items[0] != 't' && items[0] != 'f' {
			return fmt.Errorf("items must be a JSON Schema (an object), not %s", kindOf(items))
		}
		if a.Backing != "array" {
			p.note("argument %q: items has no meaning for backing_type %s", a.Name, a.Backing)
		}
	}
	a.Enum, a.Default, a.Items = obj.compact("enum"), obj.compact("default"), obj.compact("items")
	return nil
}
