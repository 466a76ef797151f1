package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/closest"
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
	i := slices.IndexFunc(t, func(s *Skill) bool { return s.Name == args.Name })
	if i < 0 {
		return agent.Result{}, fmt.Errorf("there is no skill %q%s", args.Name, closest.Hint(args.Name, Names(t)))
	}
	if args.File == "" || args.File == FileName {
		r := agent.TextResult(t[i].describe())
		if len(t[i].Tools) > 0 {
			r.Toolgroups = agent.Toolgroups{t[i].Group(): true}
		}
		return r, nil
	}
	data, err := readIn(t[i].Dir, args.File)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the model knows the path as it wrote it
	}
	if err != nil {
		return agent.Result{}, fmt.Errorf("read %s of the skill %s: %w", args.File, args.Name, err)
	}
	return agent.TextResult(string(data)), nil
}

// Group is the toolgroup of the skill's tools. It is active once the model has read the skill.
func (s *Skill) Group() string { return "skill:" + s.Name }

// describe returns the instructions of s for the model.
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
