package acpserver

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// message makes a prompt the message of a user: one text, which contains embedded texts and
// the paths of links, followed by the media.
func message(blocks []acp.Block) (agent.Message, error) {
	var text strings.Builder
	var media []agent.Part
	add := func(format string, args ...any) {
		if text.Len() > 0 && format[0] == '\n' {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, format, args...)
	}
	for i, b := range blocks {
		wrong := func(what string) error {
			return jsonrpc.Errorf(acp.InvalidParams, "prompt[%d]: %s", i, what)
		}
		switch {
		case b.Type == "text" && b.Text != nil:
			text.WriteString(*b.Text)
		case b.Type == "resource_link" && b.URI != "":
			add("%s", filePath(b.URI))
		case (b.Type == "image" || b.Type == "audio") && b.Data != "":
			data, err := base64.StdEncoding.DecodeString(b.Data)
			if err != nil {
				return agent.Message{}, wrong("data: " + err.Error())
			}
			media = append(media, agent.Part{Kind: agent.PartMedia, MIME: b.MIMEType, Data: data})
		case b.Type == "resource" && b.Resource != nil && b.Resource.Text != nil:
			add("\n<file path=%q>\n%s\n</file>\n", filePath(b.Resource.URI), strings.TrimSuffix(*b.Resource.Text, "\n"))
		case b.Type == "resource" && b.Resource != nil && b.Resource.Blob != nil:
			data, err := base64.StdEncoding.DecodeString(*b.Resource.Blob)
			if err != nil {
				return agent.Message{}, wrong("resource.blob: " + err.Error())
			}
			media = append(media, agent.Part{Kind: agent.PartMedia, MIME: b.Resource.MIMEType, Data: data, Name: path.Base(filePath(b.Resource.URI))})
		default:
			return agent.Message{}, wrong(fmt.Sprintf("the type %.50q is not supported, or its content is missing", b.Type))
		}
	}
	m := agent.Message{Role: agent.RoleUser}
	if text.Len() > 0 {
		m.Parts = append(m.Parts, agent.Text(text.String()))
	}
	if m.Parts = append(m.Parts, media...); len(m.Parts) == 0 {
		return m, jsonrpc.Errorf(acp.InvalidParams, "the prompt is empty")
	}
	return m, nil
}

// filePath is the path of a file: URL; another one stays as it is.
func filePath(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" && u.Path != "" {
		return u.Path
	}
	return uri
}

// block is a part of a message.
func block(p agent.Part) *acp.Block {
	data := base64.StdEncoding.EncodeToString(p.Data)
	switch kind, _, _ := strings.Cut(p.MIME, "/"); {
	case p.Kind != agent.PartMedia:
		return acp.TextBlock(termtext.Clean(p.Text))
	case kind == "image" || kind == "audio":
		return &acp.Block{Type: kind, Data: data, MIMEType: p.MIME}
	}
	uri := (&url.URL{Scheme: "attachment", Path: "/" + p.Name}).String()
	return &acp.Block{Type: "resource", Resource: &acp.Resource{URI: uri, MIMEType: p.MIME, Blob: &data}}
}

// result is what a call returned: its text and its media.
func result(r *agent.ToolResult) (text string, list []acp.CallContent) {
	if text = termtext.Clean(r.Text()); len(text) > maxOutput {
		text = strings.ToValidUTF8(text[:maxOutput], "") + fmt.Sprintf("\n[%d more bytes]", len(text)-maxOutput)
	}
	for _, p := range r.Parts {
		if p.Kind == agent.PartMedia {
			list = append(list, acp.CallContent{Type: "content", Content: block(p)})
		}
	}
	return text, list
}

// fenced is a text that Markdown shows as it is.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// title is a call on one line.
func title(e *agent.Event) string {
	text := e.Tool
	if args := view.Args(e.Args); args != "" {
		text += " " + args
	}
	if e.Depth > 0 {
		text = e.Agent + ": " + text
	}
	return termtext.Line(text, 160, "…")
}

// kinds maps words in the names of tools to the kinds of their calls. The first match counts.
var kinds = [...]struct{ word, kind string }{
	{"search", "search"}, {"grep", "search"}, {"find", "search"}, {"recall", "search"},
	{"fetch", "fetch"}, {"browse", "fetch"}, {"http", "fetch"}, {"web", "fetch"},
	{"edit", "edit"}, {"write", "edit"}, {"patch", "edit"}, {"delete", "delete"}, {"remove", "delete"}, {"move", "move"}, {"rename", "move"},
	{"think", "think"}, {"task", "think"}, {"read", "read"},
	{"bash", "execute"}, {"shell", "execute"}, {"exec", "execute"}, {"command", "execute"}, {"run", "execute"}, {"python", "execute"},
}

// kind is the kind of a tool's calls.
func kind(tool string, spec *agent.ToolSpec) string {
	if spec.IsAgent() {
		return "think"
	}
	_, name, ok := strings.Cut(strings.ToLower(tool), "_") // without bash_ or mcp_
	if !ok {
		name = strings.ToLower(tool)
	}
	for _, k := range kinds {
		if strings.Contains(name, k.word) {
			return k.kind
		}
	}
	if spec.Effects == agent.EffectsNone {
		return "read"
	}
	return "other"
}
