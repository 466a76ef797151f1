package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
)

// catalogSize limits the descriptions in a catalog, in bytes.
const catalogSize = 16 << 10

// Catalog lists the names and descriptions of skills, which are sorted by name, for a system
// prompt. If the descriptions are too long in total, each is cut to the same maximum length.
func Catalog(list []*Skill) string {
	total, most := 0, maxDescription*utf8.UTFMax
	for _, s := range list {
		total += len(s.Description)
	}
	if total > catalogSize {
		most = catalogSize / len(list)
	}
	var b strings.Builder
	b.WriteString("You have these skills. When a task matches one, call skill_describe with the name of the skill before you begin, and follow the instructions that it returns:")
	for _, s := range list {
		description := s.Description
		if len(description) > most {
			description = strings.ToValidUTF8(description[:most], "") + "…"
		}
		b.WriteString("\n- " + s.Name + ": " + description)
	}
	return b.String()
}

// Names are the names of skills.
func Names(list []*Skill) []string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// Tools returns the tool skill_describe for skills, which are sorted by name.
func Tools(list []*Skill) agent.ToolList { return agent.ToolList{tool(list)} }

// CompatTools returns a tool for each of skills, skill_describe_NAME as in agents-exe.
func CompatTools(list []*Skill) (tools agent.ToolList) {
	for i := range list {
		tools = append(tools, single{list[i : i+1]})
	}
	return tools
}

// A single is the tool of one skill, with the argument file alone.
type single struct{ tool }

// Spec implements agent.Tool.
func (t single) Spec() agent.ToolSpec {
	s := t.tool[0]
	return agent.ToolSpec{
		Name: toolname.Join("skill_describe", s.Name), Source: "skills " + s.Name, Effects: agent.EffectsNone,
		Description: "Returns the instructions of the skill " + s.Name + ", or another file of it: " + s.Description,
		Schema:      json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"file":{"type":"string","description":"a file of the skill, relative to its folder; without it, the instructions"}}}`),
	}
}

type tool []*Skill

// Spec implements agent.Tool.
func (t tool) Spec() agent.ToolSpec {
	names, _ := json.Marshal(Names(t)) // they are texts
	return agent.ToolSpec{
		Name: "skill_describe", Source: "skills " + strings.Join(Names(t), ", "), Effects: agent.EffectsNone,
		Description: "Returns the instructions of a skill, or another file of the skill that its instructions mention.",
		Schema: json.RawMessage(`{"type":"object","required":["name"],"additionalProperties":false,"properties":{` +
			`"name":{"type":"string","enum":` + string(names) + `,"description":"the skill"},` +
			`"file":{"type":"string","description":"a file of the skill, relative to its folder, such as references/forms.md; without it, the instructions"}}}`),
	}
}

// Call implements agent.Tool.
func (t tool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args struct{ Name, File string }
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	if len(t) == 1 {
		args.Name = cmp.Or(args.Name, t[0].Name) // a single has no such argument
	}
	return t.read(args.Name, args.File)
}

// read returns a file of the skill with a name; "" is its instructions.
func (t tool) read(name, file string) (agent.Result, error) {
	i := slices.IndexFunc(t, func(s *Skill) bool { return s.Name == name })
	if i < 0 {
		return agent.Result{}, fmt.Errorf("there is no skill %q%s", name, closest.Hint(name, Names(t)))
	}
	if file == "" || file == FileName {
		r := agent.TextResult(t[i].describe())
		if len(t[i].Tools) > 0 {
			r.Toolgroups = agent.Toolgroups{t[i].Group(): true}
		}
		return r, nil
	}
	data, err := readIn(t[i].Dir, file)
	if err != nil { // the model knows the path as it wrote it
		return agent.Result{}, fmt.Errorf("read %s of the skill %s: %w", file, name, wholefile.Cause(err))
	}
	return agent.TextResult(string(data)), nil
}

// Group is the toolgroup of the skill's tools. It is active once the model has read the skill.
func (s *Skill) Group() string { return "skill:" + s.Name }

func (s *Skill) describe() string {
	const most = 100
	files := s.Files()
	if len(files) > most {
		files = append(files[:most], fmt.Sprintf("and %d more", len(files)-most))
	}
	text := fmt.Sprintf("Skill %s, in the folder %s. Paths in the text below are relative to this folder, which is not the working directory of commands.", s.Name, s.Dir)
	for _, line := range [][2]string{{"Needs", s.Compatibility}, {"Uses these tools, if you have them", s.AllowedTools},
		{"Scripts that you can call as tools from your next message on", strings.Join(s.Tools, ", ")}, {"Files", strings.Join(files, ", ")}} {
		if line[1] != "" {
			text += "\n" + line[0] + ": " + line[1]
		}
	}
	return text + "\n\n" + s.Text
}
