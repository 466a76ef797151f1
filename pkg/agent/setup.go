package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// sameSpec reports whether two tools look the same to a model.
func sameSpec(a, b ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && string(a.Schema) == string(b.Schema) && a.Effects == b.Effects
}

func digestOf(system string, tools []ToolSpec) string {
	h := sha256.New()
	b := field(nil, system)
	for _, s := range tools {
		b = field(b, s.Name)
		b = field(b, s.Description)
		b = field(b, s.Schema)
		b = field(b, s.Effects)
		h.Write(b)
		b = b[:0]
	}
	h.Write(b)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// field adds a text with its length, so that no two lists of texts are alike.
func field[T ~string | ~[]byte](b []byte, s T) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// difference says how an agent differs from that of the setup.
func (s Setup) difference(system string, tools []ToolSpec) string {
	if s.System == "" && s.Tools == nil {
		return "its system prompt or its tools differ"
	}
	var list []string
	if system != s.System {
		list = append(list, "another system prompt")
	}
	var added, removed []string
	for _, t := range tools {
		if !slices.Contains(s.Tools, t.Name) {
			added = append(added, t.Name)
		}
	}
	for _, name := range s.Tools {
		if !slices.ContainsFunc(tools, func(t ToolSpec) bool { return t.Name == name }) {
			removed = append(removed, name)
		}
	}
	if len(added) > 0 {
		list = append(list, "new tools: "+strings.Join(added, ", "))
	}
	if len(removed) > 0 {
		list = append(list, "without the tools: "+strings.Join(removed, ", "))
	}
	if len(list) == 0 {
		list = append(list, "its tools are described differently")
	}
	return strings.Join(list, "; ")
}
