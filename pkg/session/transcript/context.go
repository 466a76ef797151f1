package transcript

// Sizes are the formats of a session in the prompt of another, the smallest first:
// prompts and answers (xs), also thinking and the names of called tools (s), also
// statistics (m), also the first part of arguments and results (l), complete ones and
// the sessions of sub-agents (xl).
var Sizes = []string{"xs", "s", "m", "l", "xl"}

// Context returns the format of a session in one of the Sizes, and whether
// statistics precede it.
func Context(size string) (m *Markdown, statistics bool) {
	switch size {
	case "xs":
		return &Markdown{Answers: true}, false
	case "s":
		return &Markdown{Thinking: true, Calls: Hidden}, false
	case "m":
		return &Markdown{Thinking: true, Calls: Hidden}, true
	case "l":
		return &Markdown{Thinking: true, Calls: Cut}, true
	}
	return &Markdown{Thinking: true, Calls: Whole, SubAgents: true}, true
}
