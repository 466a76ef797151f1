package replay

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// sameTool reports whether a model is told the same of two tools.
func sameTool(a, b agent.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && sameJSON(a.Schema, b.Schema)
}

func sameMessage(a, b agent.Message) bool {
	return a.Role == b.Role && slices.EqualFunc(a.Parts, b.Parts, samePart) &&
		slices.EqualFunc(a.Calls, b.Calls, sameCall) && slices.EqualFunc(a.Results, b.Results, sameResult)
}

// sameWords is sameMessage without the results of tools.
func sameWords(a, b agent.Message) bool {
	if a.Role == agent.RoleTool && b.Role == agent.RoleTool {
		return len(a.Results) == len(b.Results)
	}
	return sameMessage(a, b)
}

func samePart(a, b agent.Part) bool {
	return a.Kind == b.Kind && a.Text == b.Text && a.MIME == b.MIME && a.Name == b.Name &&
		bytes.Equal(a.Data, b.Data) && sameJSON(a.Extra, b.Extra)
}

func sameCall(a, b agent.ToolCall) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Args == b.Args && sameJSON(a.Extra, b.Extra)
}

func sameResult(a, b agent.ToolResult) bool {
	return a.CallID == b.CallID && a.Name == b.Name && a.Failed == b.Failed && slices.EqualFunc(a.Parts, b.Parts, samePart)
}

// sameJSON reports whether two JSON texts differ in nothing but spaces and escapes,
// which a journal does not keep.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(squeeze(a), squeeze(b))
}

func squeeze(raw json.RawMessage) []byte {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return raw
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}
