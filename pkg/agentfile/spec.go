package agentfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Tag is the tag of every agent file.
const Tag = "OpenAIAgentDescription"

// A Spec is the contents of an agent file, with its keys in one spelling. The
// JSON Schema (package schemas) documents each.
type Spec struct {
	Slug          string          `json:"slug"`
	APIKeyID      string          `json:"apiKeyId"`
	Flavor        string          `json:"flavor"`
	ModelURL      string          `json:"modelUrl"`
	ModelName     string          `json:"modelName"`
	Announce      string          `json:"announce"`
	SystemPrompt  Lines           `json:"systemPrompt"`
	ToolDirectory string          `json:"toolDirectory"`
	BashToolboxes []Toolbox       `json:"bashToolboxes"`
	MCPServers    []MCPServer     `json:"mcpServers"`
	MCPConfigs    []string        `json:"mcpConfigFiles"`
	ExtraAgents   []ExtraAgent    `json:"extraAgents"`
	OpenAPI       json.RawMessage `json:"openApiToolboxes"`
	PostgREST     json.RawMessage `json:"postgrestToolboxes"`
	Builtin       json.RawMessage `json:"builtinToolboxes"`
	Skills        json.RawMessage `json:"skillSources"`
	AutoSkills    json.RawMessage `json:"autoEnableSkills"`

	AllowDash             bool                       `json:"allowDash"`
	ToolEnv               []string                   `json:"toolEnv"`
	ToolTimeoutSeconds    float64                    `json:"toolTimeoutSeconds"`
	ToolWorkingDirectory  string                     `json:"toolWorkingDirectory"`
	MaxTurns              int                        `json:"maxTurns"`
	MaxParallelTools      int                        `json:"maxParallelTools"`
	ContextTokens         int                        `json:"contextTokens"`
	Compaction            *bool                      `json:"compaction"`
	Temperature           *float64                   `json:"temperature"`
	MaxOutputTokens       int                        `json:"maxOutputTokens"`
	ReasoningEffort       string                     `json:"reasoningEffort"`
	ExtraBody             map[string]json.RawMessage `json:"extraBody"`
	RequestTimeoutSeconds float64                    `json:"requestTimeoutSeconds"`
	Script                string                     `json:"script"`
}

// Lines is a text that a file gives as one string or as an array of lines.
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

// A Toolbox is a folder of executables or one of them.
type Toolbox struct {
	Tag            string `json:"tag"` // FileSystemDirectory or SingleTool
	Path           string `json:"path"`
	BasenameFilter string `json:"basenameFilter"`
	AllowDash      bool   `json:"allowDash"`
}

// An MCPServer is a source of tools: a program that speaks MCP on its standard
// input and output, or an address.
type MCPServer struct {
	Tag                 string            `json:"tag"` // McpSimpleBinary or McpHttp
	Name                string            `json:"name"`
	Executable          string            `json:"executable"`
	Args                []string          `json:"args"`
	Env                 map[string]string `json:"env"`
	Cwd                 string            `json:"cwd"`
	ToolEnv             []string          `json:"toolEnv"`
	URL                 string            `json:"url"`
	Headers             map[string]string `json:"headers"`
	TimeoutSeconds      float64           `json:"timeoutSeconds"`
	StartTimeoutSeconds float64           `json:"startTimeoutSeconds"`
	PollSeconds         float64           `json:"pollSeconds"`
	Protocol            string            `json:"protocol"`
	Tools               []string          `json:"tools"`
	Roots               []string          `json:"roots"`
	Sampling            bool              `json:"sampling"`
	Disabled            bool              `json:"disabled"`

	Lifetime   json.RawMessage `json:"lifetime"`
	Activation json.RawMessage `json:"activation"`
	Bindings   json.RawMessage `json:"bindings"`

	// Of an entry of a mcpServers object as other MCP clients write it: its key,
	// what of it is not read, and why it cannot be used at all.
	key     string
	unread  []string
	invalid error
}

// An ExtraAgent is a sub-agent that lies outside the tool directory.
type ExtraAgent struct {
	Slug string `json:"slug"`
	Path string `json:"path"`
}

// decode reads the contents of an agent file that satisfies the schema. Only
// the spellings that the schema knows are read: encoding/json alone would take
// any case.
func decode(contents json.RawMessage) (*Spec, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(contents, &raw); err != nil {
		return nil, err
	}
	spec := &Spec{}
	known := spellings()
	for key, value := range raw {
		camel, ok := known[key]
		if !ok {
			delete(raw, key)
			continue
		}
		if camel != key {
			delete(raw, key)
			if _, both := raw[camel]; !both {
				raw[camel] = value
			}
		}
	}
	if entries := map[string]json.RawMessage{}; bytes.HasPrefix(raw["mcpServers"], []byte("{")) {
		if err := json.Unmarshal(raw["mcpServers"], &entries); err != nil {
			return nil, err
		}
		delete(raw, "mcpServers")
		spec.MCPServers = clientServers(entries)
		for i := range spec.MCPServers {
			s := &spec.MCPServers[i]
			s.Sampling = bytes.Equal(member(entries[s.key], "sampling"), []byte("true"))
		}
	}
	for _, list := range []string{"bashToolboxes", "mcpServers"} {
		flat, err := untag(raw[list])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		if flat != nil {
			raw[list] = flat
		}
	}
	canonical, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	return spec, json.Unmarshal(canonical, spec)
}

// member is the value of a key of an object, nil if there is none.
func member(object json.RawMessage, key string) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(object, &members) // what is no object has no members
	return members[key]
}

// spellings maps every accepted key to its camelCase form.
func spellings() map[string]string {
	t := reflect.TypeFor[Spec]()
	m := make(map[string]string, 2*t.NumField())
	for i := range t.NumField() {
		k := t.Field(i).Tag.Get("json")
		m[k] = k
		m[kebab(k)] = k
	}
	return m
}

// twice finds keys that contents has in both spellings.
func twice(contents map[string]any) []string {
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

// untag lifts the contents of {"tag","contents"} values, with keys that begin
// with a small letter.
func untag(list json.RawMessage) (json.RawMessage, error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, nil
	}
	var tagged []struct {
		Tag      string                     `json:"tag"`
		Contents map[string]json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(list, &tagged); err != nil {
		return nil, err
	}
	var flat []map[string]any
	for _, t := range tagged {
		m := map[string]any{"tag": t.Tag}
		for k, v := range t.Contents {
			m[strings.ToLower(k[:min(1, len(k))])+k[min(1, len(k)):]] = v
		}
		flat = append(flat, m)
	}
	return json.Marshal(flat)
}
