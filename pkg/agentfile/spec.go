package agentfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/policy"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// Tag is the tag of every agent file.
const Tag = "OpenAIAgentDescription"

// A Spec is the contents of an agent file, with its keys in one spelling. The
// JSON Schema (package schemas) documents each.
type Spec struct {
	Slug string `json:"slug"`
	Model
	Models   map[string]Model `json:"models"`
	Fallback []string         `json:"fallback"`
	Lend     *Lend            `json:"lend"`

	Announce      string           `json:"announce"`
	SystemPrompt  Lines            `json:"systemPrompt"`
	PromptFile    string           `json:"promptFile"`
	Transcripts   string           `json:"transcripts"`
	Toolkit       string           `json:"toolkit"`
	ToolDirectory string           `json:"toolDirectory"`
	BashToolboxes lazy[Toolbox]    `json:"bashToolboxes"`
	MCPServers    lazy[MCPServer]  `json:"mcpServers"`
	MCPConfigs    []string         `json:"mcpConfigFiles"`
	ExtraAgents   lazy[ExtraAgent] `json:"extraAgents"`
	CompatNames   bool             `json:"compatNames"`
	Background    bool             `json:"background"`
	Detach        bool             `json:"detach"`

	ToolProtocol  string   `json:"toolProtocol"`
	ScriptMarkers []string `json:"scriptMarkers"`

	AllowDash            bool            `json:"allowDash"`
	ToolEnv              []string        `json:"toolEnv"`
	ToolTimeoutSeconds   float64         `json:"toolTimeoutSeconds"`
	ToolWorkingDirectory string          `json:"toolWorkingDirectory"`
	Sandbox              *sandbox.Config `json:"sandbox"`
	MaxTurns             int             `json:"maxTurns"`
	MaxParallelTools     int             `json:"maxParallelTools"`
	Compaction           *bool           `json:"compaction"`
	Step                 string          `json:"step"`

	InputSchema   json.RawMessage `json:"inputSchema"`
	OutputSchema  json.RawMessage `json:"outputSchema"`
	ContextSchema json.RawMessage `json:"contextSchema"`
	Context       json.RawMessage `json:"context"`
	RequiredTools []string        `json:"requiredTools"`
	Activation    Activation      `json:"activation"`

	Expected
	Checkpoints     bool         `json:"checkpoints"`
	Locked          bool         `json:"locked"`
	Watch           bool         `json:"watch"`
	Budget          agent.Budget `json:"budget"`
	DeadlineSeconds float64      `json:"deadlineSeconds"`
	LoopLimit       LoopLimit    `json:"loopLimit"`

	Workspace string   `json:"workspace"`
	Bring     []string `json:"bring"`

	Permissions []json.RawMessage `json:"permissions"`
	Approval    policy.Approval   `json:"approval"`
}

// A Model is the part of a Spec that says which model is asked and how.
type Model struct {
	APIKeyID              string                     `json:"apiKeyId"`
	APIKeyEnv             string                     `json:"apiKeyEnv"`
	Flavor                string                     `json:"flavor"`
	ModelURL              string                     `json:"modelUrl"`
	ModelName             string                     `json:"modelName"`
	Protocol              string                     `json:"protocol"`
	ContextTokens         int                        `json:"contextTokens"`
	Temperature           *float64                   `json:"temperature"`
	MaxOutputTokens       int                        `json:"maxOutputTokens"`
	ReasoningEffort       string                     `json:"reasoningEffort"`
	ExtraBody             map[string]json.RawMessage `json:"extraBody"`
	Price                 *prices.Price              `json:"price"`
	RequestTimeoutSeconds float64                    `json:"requestTimeoutSeconds"`
	Script                string                     `json:"script"`
	TextCalls             *bool                      `json:"textCalls"`

	name string      // in Spec.Models; "" if its keys are those of the Spec
	own  *config.Key // that of APIKeyEnv, if there is one
}

// A lazy list is one of which encoding/json does not look at T before it reads an entry.
// To decode a struct it otherwise builds the encoders of all types in it, which takes as
// long as all else that loading a small agent does.
type lazy[T any] []T

// MarshalJSON is what encoding/json does without it.
func (l lazy[T]) MarshalJSON() ([]byte, error) { return json.Marshal([]T(l)) }

// Paths is a list that is one string or an array of strings in a file.
type Paths []string

// UnmarshalJSON reads both forms.
func (p *Paths) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil && one != "" {
		*p = Paths{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(p))
}

// Lines is a text that is one string or an array of lines in a file.
type Lines string

// UnmarshalJSON joins an array's lines by newlines.
func (l *Lines) UnmarshalJSON(data []byte) error {
	var one string
	if err := json.Unmarshal(data, &one); err == nil {
		*l = Lines(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*l = Lines(strings.Join(many, "\n"))
	return nil
}

// A LoopLimit is Agent.LoopWarn and Agent.LoopEnd: in a file an object, a number, which
// is the end, or false.
type LoopLimit struct{ Warn, End int }

// UnmarshalJSON reads each of the three forms.
func (l *LoopLimit) UnmarshalJSON(data []byte) error {
	var form struct{ Warn, End *int }
	switch text := string(data); {
	case text == "null":
		return nil
	case text == "true":
		*l = LoopLimit{}
		return nil
	case text == "false" || text == "0":
		*l = LoopLimit{-1, -1}
		return nil
	case !strings.HasPrefix(text, "{"):
		if err := json.Unmarshal(data, &l.End); err != nil {
			return err
		}
		l.Warn = min(agent.DefaultLoopWarn, cmp.Or(l.End-1, -1))
		return nil
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	limit := func(from *int) int {
		if from == nil {
			return 0
		}
		return cmp.Or(*from, -1)
	}
	*l = LoopLimit{limit(form.Warn), limit(form.End)}
	return nil
}

// decode reads the keys of a Spec. Only the spellings that the schema knows count:
// encoding/json alone would take any case. After an error the Spec holds the keys that can be
// read.
func decode(keys map[string]any) (*Spec, error) {
	values, known := map[string]any{}, keysOf(&Spec{})
	for _, key := range known {
		if value, ok := keys[key]; ok {
			values[key] = value
		}
	}
	spec := &Spec{}
	if entries, ok := values["mcpServers"].(map[string]any); ok {
		delete(values, "mcpServers")
		spec.MCPServers = pastedServers(entries)
	}
	for list, entry := range map[string]any{"bashToolboxes": &Toolbox{}, "mcpServers": &MCPServer{}, "extraAgents": &ExtraAgent{}} {
		if items, ok := values[list].([]any); ok {
			values[list] = flatten(items, keysOf(entry))
		}
	}
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, spec)
	}
	if err == nil {
		return spec, nil
	}
	spec = &Spec{MCPServers: spec.MCPServers}
	for _, key := range known {
		data, _ := json.Marshal(map[string]any{key: values[key]}) // it came from JSON
		if json.Unmarshal(data, &Spec{}) == nil {
			_ = json.Unmarshal(data, spec) // as before
		}
	}
	return spec, err
}

// flatten lifts the contents of the {"tag","contents"} values of a list, and keeps
// the known keys, which may begin with a capital letter there. An item that is not
// an object stays as it is.
func flatten(items []any, known []string) []any {
	out := slices.Clone(items)
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			continue
		}
		flat := map[string]any{}
		contents, tagged := members["contents"].(map[string]any)
		if !tagged {
			contents = members
		}
		for _, key := range known {
			for _, spelling := range []string{strings.ToUpper(key[:1]) + key[1:], key} {
				if value, ok := contents[spelling]; ok && (tagged || spelling == key) {
					flat[key] = value
				}
			}
		}
		if tagged {
			flat["tag"], flat["contents"] = members["tag"], contents
		}
		out[i] = flat
	}
	return out
}

// keysOf returns the JSON keys of the fields of a struct, given a pointer to one.
func keysOf(pointer any) (keys []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(pointer).Elem()) {
		if key := field.Tag.Get("json"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// otherSpellings finds keys that contents has in both spellings.
func otherSpellings(contents map[string]any) []string {
	var keys []string
	for key := range contents {
		if k := kebab(key); k != key {
			if _, both := contents[k]; both {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// camel turns api-key-id into apiKeyId.
func camel(kebab string) string {
	first, words, _ := strings.Cut(kebab, "-")
	for word := range strings.SplitSeq(words, "-") {
		if word != "" {
			first += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return first
}

// kebab turns apiKeyId into api-key-id.
func kebab(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// unsupported are the keys that agents-exe gives a meaning to and this program does not yet: of
// the contents, for "", and of the items of a list in it.
func unsupported(list string) []string {
	switch list {
	case "":
		return []string{"parameters", "bindings", "executionMode", "toolCallPolicyConfig"}
	case "bashToolboxes":
		return []string{"root", "lifetime", "bindings"}
	case "mcpServers":
		return []string{"lifetime", "bindings"}
	}
	return []string{"with", "narrowable"} // of extraAgents
}

// unsupportedKeys are the pointers of such keys in f that are not empty.
func (f *File) unsupportedKeys() []string {
	var pointers []string
	look := func(members any, pointer, list string) {
		object, _ := members.(map[string]any)
		for _, key := range unsupported(list) {
			spellings := []string{key, kebab(key), strings.ToUpper(key[:1]) + key[1:]}
			for _, spelling := range slices.Compact(spellings) {
				text, _ := json.Marshal(object[spelling]) // it came from JSON
				if !slices.Contains([]string{"null", "false", "[]", "{}", `""`}, string(text)) {
					pointers = append(pointers, pointer+"/"+spelling)
				}
			}
		}
	}
	look(f.contents(), "/contents", "")
	for _, list := range []string{"bashToolboxes", "mcpServers", "extraAgents"} {
		pointer := f.at(list)
		items, _ := f.contents()[strings.TrimPrefix(pointer, "/contents/")].([]any)
		for i, item := range items {
			at := fmt.Sprintf("%s/%d", pointer, i)
			look(item, at, list)
			if object, ok := item.(map[string]any); ok {
				look(object["contents"], at+"/contents", list)
			}
		}
	}
	return pointers
}
