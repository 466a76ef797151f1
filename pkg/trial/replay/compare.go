package replay

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// sameTool reports whether a model sees no difference between two tools.
func sameTool(a, b agent.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && same(a.Schema, b.Schema)
}

// sameMessage leaves out receipts: they have the costs, times and files of another run.
func sameMessage(a, b agent.Message) bool {
	return same(withoutReceipts(a), withoutReceipts(b))
}

func withoutReceipts(m agent.Message) agent.Message {
	if m.Role == agent.RoleUser { // with the answer of an agent in the background
		m.Parts = agent.WithoutReceipts(m.Parts)
	}
	if m.Role == agent.RoleTool {
		m.Results = slices.Clone(m.Results)
		for i := range m.Results {
			m.Results[i].Parts = agent.WithoutReceipts(m.Results[i].Parts)
		}
	}
	return m
}

// sameButResults is sameMessage without the results of tools.
func sameButResults(a, b agent.Message) bool {
	if a.Role == agent.RoleTool && b.Role == agent.RoleTool {
		return len(a.Results) == len(b.Results)
	}
	return same(a, b)
}

// same reports whether two values are the same JSON: a journal does not keep the
// spaces and escapes of JSON inside them.
func same[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true // much faster
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
