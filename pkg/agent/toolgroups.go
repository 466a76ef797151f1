package agent

import "maps"

// Toolgroups says which groups of tools are active in a session: a group that is not in it
// is as its toolset has it at the beginning.
type Toolgroups map[string]bool

// with returns g with changes. g does not change.
func (g Toolgroups) with(changes Toolgroups) Toolgroups {
	out := maps.Clone(g)
	if out == nil {
		out = Toolgroups{}
	}
	maps.Copy(out, changes)
	return out
}
