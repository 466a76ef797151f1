package exectool

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// Limits of a description.
const (
	MaxDescriptionBytes = 1 << 20
	MaxArgs             = 500
	MaxEnum             = 1000
	MaxLocks            = 100
	MaxTimeout          = 7 * 24 * time.Hour
)

// A Description is what an executable says of itself when it is run as
// `<tool> describe`.
type Description struct {
	// Slug is the tool's name: letters, digits, _ and -.
	Slug        string
	Description string
	// Args are in the order of the command line.
	Args []Arg
	// Empty replaces a result of exactly zero bytes, if it is not empty.
	Empty string
	// MediaType says that stdout is data of this MIME type; empty: text.
	MediaType string

	// Effects is what the tool declares, "" if it declares nothing.
	Effects agent.Effects
	// Locks may hold "{arg}" for the value of an argument.
	Locks []string
	// Task is agent.TaskRequired if MCP clients can call the tool only as a task, otherwise "".
	Task string
	// Timeout is the tool's own time limit, 0 if it names none.
	Timeout time.Duration
	// Deadline is the time that a run of an agent which speaks the channel may take,
	// 0 if it names none.
	Deadline time.Duration
	// Examples are calls that `agents tool test` tries, unread: package tooltest knows them.
	Examples []json.RawMessage
	// Channel is the version of the channel that the tool speaks when it is run as
	// `<tool> run --channel`; 0 if it does not, or if that version is not known.
	Channel int
	// Context says that the tool uses the context of the run, so that it also gets it
	// behind a Runner.
	Context bool
	// SessionJSON says that the tool reads the session: see Options.SessionJSON.
	SessionJSON bool
	// Models says that the tool uses models that its agent lends it: those of the names
	// in ModelNames, or all if that is empty. See Options.Lend.
	Models     bool
	ModelNames []string
	// Input is the JSON Schema of all arguments, which are then one JSON object that
	// Command passes on standard input, and not Args; nil where there is none.
	Input json.RawMessage
}

// An Arg is an argument of a tool.
type Arg struct {
	Name        string
	Description string
	// Type is free text for people and models: "hostname|ip4".
	Type string
	// Backing is the type in the JSON Schema: string, integer, number,
	// boolean, array or object.
	Backing string
	// Optional is arity "optional"; otherwise it is "single".
	Optional bool
	Mode     Mode
	// AllowDash permits values that look like options in the modes
	// positional and dashdashspace.
	AllowDash bool
	// Enum, Default and Items are as in JSON Schema: compact JSON, nil if
	// absent.
	Enum, Default, Items json.RawMessage
}

// A Mode says how a value reaches the tool.
type Mode string

// The modes.
const (
	Positional    Mode = "positional"    // VALUE
	DashDashSpace Mode = "dashdashspace" // --NAME VALUE
	DashDashEqual Mode = "dashdashequal" // --NAME=VALUE
	Stdin         Mode = "stdin"         // on standard input
)

// parser reads a description and collects what is odd but no error.
type parser struct {
	notes []string
}

func (p *parser) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// ParseDescription reads what `<tool> describe` printed: one JSON object, with
// white space before and after it and nothing else, at most
// MaxDescriptionBytes. The notes are for the tool's author: unknown fields,
// defaults that were taken, unusual names. An error names the field, or the
// argument and the field, and what is valid there.
func ParseDescription(data []byte) (*Description, []string, error) {
	if len(data) > MaxDescriptionBytes {
		return nil, nil, fmt.Errorf("the description is longer than %d bytes", MaxDescriptionBytes)
	}
	obj, err := parseObject(data)
	if err != nil {
		return nil, nil, err
	}
	p := &parser{}
	d, err := p.description(obj)
	if err != nil {
		return nil, nil, err
	}
	return d, p.notes, nil
}

func (p *parser) description(obj *object) (*Description, error) {
	d := &Description{}
	err := firstError(
		func() error { return obj.text("slug", true, &d.Slug) },
		func() error { return checkSlug(d.Slug) },
		func() error { return obj.text("description", true, &d.Description) },
		func() error { return p.args(obj, d) },
		func() error { return p.emptyResult(obj, d) },
		func() error { return p.mediaType(obj, d) },
		func() error {
			return obj.oneOf("effects", (*string)(&d.Effects), string(agent.EffectsNone), string(agent.EffectsIdempotent), string(agent.EffectsOnce))
		},
		func() error { return p.locks(obj, d) },
		func() error { return obj.oneOf("task", &d.Task, agent.TaskRequired) },
		func() error { return p.seconds(obj, "timeout-seconds", &d.Timeout) },
		func() error { return p.channel(obj, d) },
		func() error { return p.deadline(obj, d) },
		func() error { return p.input(obj, d) },
		func() error { return obj.value("context", false, "true or false", &d.Context) },
		func() error { return obj.value("session-json", false, "true or false", &d.SessionJSON) },
		func() error { return p.models(obj, d) },
		func() error { return obj.value("examples", false, "an array of objects", &d.Examples) },
	)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(d.Description) == "" {
		p.note("the description is empty: a model cannot know what the tool is for")
	}
	if len(toolname.Join("bash", d.Slug)) != len("bash_")+len(d.Slug) {
		p.note("the slug is long: the model sees %s", toolname.Join("bash", d.Slug))
	}
	obj.take("$schema") // for editors
	for _, key := range obj.unused() {
		p.note("unknown field %q is ignored", key)
	}
	return d, nil
}

func (p *parser) input(obj *object, d *Description) error {
	d.Input = obj.compact("input-schema")
	var schema struct{ Type string }
	if d.Input != nil && (json.Unmarshal(d.Input, &schema) != nil || schema.Type != "object") {
		return errors.New(`input-schema must be a JSON Schema with "type": "object"`)
	}
	return nil
}

// firstError runs the steps up to the first that fails.
func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func checkSlug(slug string) error {
	if !toolname.Valid(slug) {
		return fmt.Errorf("slug %q: only letters, digits, _ and - are valid, and at least one of them", slug)
	}
	return nil
}

func (p *parser) choice(obj *object, arg, key, def string, dst *string, valid ...string) error {
	if !obj.has(key) {
		*dst = def
		p.note("argument %q: %s is missing: taken as %q", arg, key, def)
	}
	return obj.oneOf(key, dst, valid...)
}

func (p *parser) emptyResult(obj *object, d *Description) error {
	if !obj.has("empty-result") {
		return nil
	}
	const usage = `valid are {"tag":"DoNothing"} and {"tag":"AddMessage","contents":TEXT}`
	inner, err := parseObject(obj.take("empty-result"))
	var tag string
	if err == nil {
		err = inner.text("tag", true, &tag)
	}
	switch {
	case err != nil:
	case tag == "DoNothing":
		inner.take("contents")
	case tag == "AddMessage":
		err = inner.text("contents", true, &d.Empty)
	default:
		err = fmt.Errorf("tag %q is unknown", tag)
	}
	if err != nil {
		return fmt.Errorf("empty-result: %w; %s", err, usage)
	}
	for _, key := range inner.unused() {
		p.note("empty-result: unknown field %q is ignored", key)
	}
	return nil
}

func (p *parser) mediaType(obj *object, d *Description) error {
	var s string
	if err := obj.text("output-media-type", false, &s); err != nil || s == "" {
		return err
	}
	base, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(base, "/") {
		return fmt.Errorf("output-media-type %q is not a MIME type such as image/png", s)
	}
	d.MediaType = base
	return nil
}

func (p *parser) locks(obj *object, d *Description) error {
	if err := obj.value("locks", false, "an array of strings", &d.Locks); err != nil {
		return err
	}
	if len(d.Locks) > MaxLocks {
		return fmt.Errorf("locks: %d names; the limit is %d", len(d.Locks), MaxLocks)
	}
	for _, lock := range d.Locks {
		if lock == "" {
			return fmt.Errorf("locks: a name is empty")
		}
		stray := "" // the first that names no argument
		replaceBraces(lock, func(name string) string {
			if stray == "" && !hasArg(d.Args, name) {
				stray = name
			}
			return ""
		})
		if stray != "" {
			p.note("locks: %q: {%s} is none of the arguments", lock, stray)
		}
	}
	return nil
}

// models reads true, or the names of models.
func (p *parser) models(obj *object, d *Description) error {
	if obj.value("models", false, "true or false", &d.Models) == nil {
		return nil
	}
	if err := obj.value("models", false, "true, false or an array of names", &d.ModelNames); err != nil {
		return err
	}
	if slices.Contains(d.ModelNames, "") {
		return errors.New("models: a name is empty")
	}
	d.Models = len(d.ModelNames) > 0
	return nil
}

func hasArg(args []Arg, name string) bool {
	return slices.ContainsFunc(args, func(a Arg) bool { return a.Name == name })
}

// channel reads the version of the channel. A tool that speaks another one is called
// as a tool that speaks none.
func (p *parser) channel(obj *object, d *Description) error {
	if err := obj.value("channel", false, "a number", &d.Channel); err != nil || d.Channel == 0 || d.Channel == channel.Version {
		return err
	}
	p.note("channel: version %d is not known, so the tool is called without it; %d is known", d.Channel, channel.Version)
	d.Channel = 0
	return nil
}

func (p *parser) deadline(obj *object, d *Description) error {
	err := p.seconds(obj, "deadline-seconds", &d.Deadline)
	if d.Deadline > 0 && d.Channel == 0 {
		p.note("deadline-seconds has no effect on a tool that is not an agent: timeout-seconds limits its calls")
	}
	return err
}

// seconds reads a limit of time, which is not changed if it is not there.
func (p *parser) seconds(obj *object, key string, dst *time.Duration) error {
	var seconds float64
	if err := obj.value(key, false, "a number", &seconds); err != nil || !obj.has(key) {
		return err
	}
	if seconds <= 0 || seconds > MaxTimeout.Seconds() {
		return fmt.Errorf("%s: %v is not a valid number of seconds; it must be above 0 and at most %.0f", key, seconds, MaxTimeout.Seconds())
	}
	*dst = max(time.Duration(seconds*float64(time.Second)), time.Millisecond)
	return nil
}
