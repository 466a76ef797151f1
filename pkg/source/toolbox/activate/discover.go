package activate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
)

const (
	discoverName = "meta_discover_tools"
	// most limits the names or tools in one result of meta_discover_tools.
	most = 200
	// mostFound limits the tools in the result of a search, and mostText the bytes of each description.
	mostFound, mostText = 20, 300
)

// A Limit hides the tools of its Groups if the agent has too many tools. It decides when a run first
// asks for the tools, once for all sessions of the process, so that the requests of a conversation
// begin with the same tools. A Limit may be used concurrently.
type Limit struct {
	// Tools is the most tools that are not too many, and Tokens the most estimated tokens of their
	// descriptions and schemas.
	Tools, Tokens int
	// Others are the agent's tools that are not in Groups. They count too.
	Others []agent.ToolSpec
	Groups []*Group

	mu             sync.Mutex
	decided, hides bool
	count          int
}

// Exceeds reports whether an agent has too many tools.
func (l *Limit) Exceeds(specs []agent.ToolSpec) bool {
	size := agent.EstimateUsage(&agent.Request{Tools: specs}, nil).InputTokens
	return len(specs) > l.Tools || size > l.Tokens
}

// Set decides whether the tools are hidden, whatever their number.
func (l *Limit) Set(hides bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decided, l.hides = true, hides
}

// Hides reports whether the tools of the Groups are hidden. If that is not decided yet, it asks the
// toolsets for their tools, one after the other: a run asks all at the same time anyway.
func (l *Limit) Hides(ctx context.Context) bool {
	l.mu.Lock()
	decided, hides := l.decided, l.hides
	l.mu.Unlock()
	if decided {
		return hides
	}
	specs := slices.Clone(l.Others)
	count := 0
	for _, g := range l.Groups {
		tools, _ := g.Tools(ctx) // the run reports the error
		for _, t := range tools {
			spec := t.Spec()
			if g.Hides != nil && g.Hides(spec) {
				continue // the model is never offered it
			}
			specs = append(specs, spec)
			if !g.named(spec.Name) {
				count++
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.decided && ctx.Err() == nil { // otherwise another run was first, or not all toolsets were asked
		l.decided, l.hides, l.count = true, l.Exceeds(specs) && count > 0, count
	}
	return l.hides
}

// Hidden returns how many tools are hidden, and 0 if that is not decided yet.
func (l *Limit) Hidden() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hides {
		return 0
	}
	return l.count
}

// Toolset returns a toolset with the tools in hiding if l hides tools, and with those in otherwise
// if it does not.
func (l *Limit) Toolset(hiding, otherwise agent.ToolList) agent.Toolset {
	return &metaSet{otherwise, hiding, l}
}

type metaSet struct {
	agent.ToolList
	hiding agent.ToolList
	limit  *Limit
}

// SessionTools implements agent.SessionToolset.
func (m *metaSet) SessionTools(ctx context.Context, _ *agent.State) ([]agent.Tool, error) {
	if m.limit.Hides(ctx) {
		return m.hiding, nil
	}
	return m.ToolList, nil
}

func (g *Group) named(tool string) bool { return g.Named != nil && g.Named(tool) }

// offers reports whether g, which has a Limit that hides tools, offers a tool in a session.
func (g *Group) offers(s *agent.State, tool string) bool {
	return s.Toolgroups[g.Name] || s.Toolgroups[tool] || g.named(tool)
}

// unoffered returns advice for a model that calls a hidden tool of g, which has a Limit, and nil if
// the tool is not hidden.
func (g *Group) unoffered(ctx context.Context, s *agent.State, name string) error {
	if !g.Limit.Hides(ctx) || g.offers(s, name) || !slices.Contains(g.names(ctx), name) {
		return nil
	}
	return fmt.Errorf(`nothing ran: %s is not active: activate it with %s {"toolgroup": %q}, then call the tool in your next message`, name, activateName, name)
}

// A found is a tool in the result of a search.
type found struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Toolgroup   string `json:"toolgroup"`
	Active      bool   `json:"active,omitempty"`
	score       int
}

// search returns the tools with words of the query in their names or descriptions, best matches
// first. It leaves out groups with a Prefix, whose server may not have been started.
func (set groupSet) search(ctx context.Context, s *agent.State, query string) (agent.Result, error) {
	words := wordsOf(query)
	list := []found{}
	for _, g := range set {
		if g.Prefix != "" {
			continue
		}
		tools, _ := g.Tools(ctx)
		for _, t := range tools {
			spec := t.Spec()
			if n := score(words, spec); n > 0 && (g.Hides == nil || !g.Hides(spec)) {
				text := strings.Join(strings.Fields(spec.Description), " ")
				if len(text) > mostText {
					text = strings.ToValidUTF8(text[:mostText], "") + "…"
				}
				active := s.Toolgroups[g.Name] || g.Limit != nil && g.offers(s, spec.Name)
				list = append(list, found{spec.Name, text, g.Name, active, n})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(b.score-a.score, strings.Compare(a.Name, b.Name))
	})
	result := map[string]any{"found": list[:min(len(list), mostFound)]}
	if n := len(list) - mostFound; n > 0 {
		result["left_off"] = n
	}
	return jsonResult(result)
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// score rates how well a tool matches the words, 0 if not at all. A word that is a whole word of the
// name counts most. A plural matches its singular.
func score(words []string, spec agent.ToolSpec) (n int) {
	name, text := strings.ToLower(spec.Name), strings.ToLower(spec.Description)
	parts := wordsOf(name)
	for _, word := range words {
		if short := strings.TrimSuffix(word, "s"); len(short) > 2 {
			word = short
		}
		switch {
		case slices.Contains(parts, word) || slices.Contains(parts, word+"s"):
			n += 4
		case len(word) > 2 && strings.Contains(name, word):
			n += 3
		case len(word) > 2 && strings.Contains(text, word):
			n++
		}
	}
	return n
}

// list returns the names of the tools by group. If single tools can be activated, it returns about
// most of them.
func (set groupSet) list(ctx context.Context, s *agent.State) (agent.Result, error) {
	tools, active := map[string][]string{}, map[string]bool{}
	for _, g := range set {
		tools[g.Name] = append(tools[g.Name], g.names(ctx)...)
		active[g.Name] = s.Toolgroups[g.Name]
	}
	leftOff := 0
	if limit := max(most/len(tools), 1); set.limited() {
		for name, list := range tools {
			slices.Sort(list)
			tools[name] = list[:min(len(list), limit)]
			leftOff += len(list) - len(tools[name])
			for _, tool := range list {
				if s.Toolgroups[tool] {
					active[tool] = true
				}
			}
		}
	}
	result := map[string]any{"toolgroups": set.groupNames(), "active": active, "tools": tools}
	if leftOff > 0 {
		result["left_off"] = leftOff
	}
	return jsonResult(result)
}

// limited reports whether single tools of the set can be activated.
func (set groupSet) limited() bool {
	return slices.ContainsFunc(set, func(g *Group) bool { return g.Limit != nil })
}

// check returns an error if the model cannot activate name.
func (set groupSet) check(ctx context.Context, name string) error {
	known := set.groupNames()
	for _, g := range set {
		if g.Limit != nil {
			known = append(known, g.names(ctx)...)
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	for _, g := range set {
		if g.Limit == nil && g.has(ctx, name) {
			return fmt.Errorf("%.100s belongs to the toolgroup %q, which is activated as a whole", name, g.Name)
		}
	}
	return fmt.Errorf("there is no tool or toolgroup %.100q%s; %s finds tools", name, closest.Hint(name, known), discoverName)
}

func jsonResult(v any) (agent.Result, error) {
	text, err := json.Marshal(v)
	return agent.TextResult(string(text)), err
}
