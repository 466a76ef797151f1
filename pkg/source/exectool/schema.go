package exectool

import (
	"bytes"
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// Schema is the JSON Schema of the arguments, as the model sees it and as they
// are validated: an object with one property per argument in their order,
// required are those that are not optional, and nothing else is permitted. The
// same description gives the same bytes. The free text of an argument's type is
// part of the property's description: "name of host (hostname|ip4)".
func (d *Description) Schema() json.RawMessage {
	if d.Input != nil {
		return d.Input
	}
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	for i := range d.Args {
		if i > 0 {
			b.WriteByte(',')
		}
		d.Args[i].property(&b)
	}
	b.WriteByte('}')
	open := `,"required":[`
	for i := range d.Args {
		if d.Args[i].Optional {
			continue
		}
		b.WriteString(open)
		writeString(&b, d.Args[i].Name)
		open = ","
	}
	if open == "," {
		b.WriteByte(']')
	}
	b.WriteString(`,"additionalProperties":false}`)
	return b.Bytes()
}

func (a *Arg) property(b *bytes.Buffer) {
	writeString(b, a.Name)
	b.WriteString(`:{"type":`)
	writeString(b, a.Backing)
	b.WriteString(`,"description":`)
	writeString(b, a.text())
	if a.Enum != nil {
		b.WriteString(`,"enum":`)
		b.Write(a.Enum)
	}
	if a.Default != nil {
		b.WriteString(`,"default":`)
		b.Write(a.Default)
	}
	switch {
	case a.Items != nil:
		b.WriteString(`,"items":`)
		b.Write(a.Items)
	case a.Backing == "array":
		b.WriteString(`,"items":{}`) // OpenAI refuses an array without
	}
	b.WriteByte('}')
}

// text is the description of the argument with its type.
func (a *Arg) text() string {
	switch {
	case a.Type == "":
		return a.Description
	case a.Description == "":
		return "(" + a.Type + ")"
	default:
		return a.Description + " (" + a.Type + ")"
	}
}

// writeString writes s as a JSON string, with <, > and & as they are.
func writeString(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // neither a buffer nor a string can fail
	b.Truncate(b.Len() - 1)
}

// Spec is what a model sees of the tool.
func (d *Description) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: toolname.Join("bash", d.Slug), Description: d.Description, Schema: d.Schema(),
		Effects: d.Effects, Locks: d.Locks, Channel: d.Channel, Task: d.Task,
	}
}
