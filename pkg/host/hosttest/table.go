package hosttest

import (
	"fmt"
	"strings"
)

// Table lists the abilities that each protocol lacks, with the reasons.
var Table = map[string]map[string]string{
	"In Go":                 {},
	"channel":               {},
	"WebSocket":             {},
	"OpenAI":                openAI,
	"OpenAI over WebSocket": openAI,
	"A2A": {
		StopOne: noSubagent,
		Asked:   "the client may be a model, so it cannot allow a call that a person is to decide about",
		Gone:    "a task belongs to no connection: its client finds it again by its id, or cancels it",
		Schema:  "a message has no field for it",
		Context: "a message has no field for it",
	},
	"MCP": {
		StopOne:    noSubagent,
		Attachment: "the arguments of a tool are JSON",
		Asked:      "the client may be a model, so it cannot allow a call that a person is to decide about",
		Schema:     "the arguments of a tool are those of its schema",
		Context:    "the arguments of a tool are those of its schema",
	},
	"MCP over HTTP": {
		StopOne:    noSubagent,
		Attachment: "the arguments of a tool are JSON",
		Asked:      "the client may be a model, so it cannot allow a call that a person is to decide about",
		Schema:     "the arguments of a tool are those of its schema",
		Context:    "the arguments of a tool are those of its schema",
		Gone:       "a connection that is lost does not end the call: its client can take up the stream again",
	},
	"ACP": {
		StopOne: noSubagent,
		Schema:  "a prompt has no field for it",
		Context: "a prompt has no field for it",
	},
	"`agents run`": {
		StopOne: "it reads no messages during the run",
	},
	"`agents cli`": {
		Attachment: "text from a pipe includes no files; at a terminal, @FILE does",
		Asked:      "a pipe has no person who could answer; at a terminal, the person is asked",
		Schema:     "it has no flag for it",
		Context:    "it has no flag for it",
		StopOne:    "it reads no messages during the run",
		Gone:       "it writes when the run has ended, and only then notices that nobody reads",
	},
	"fleet": {
		Gone:     "a run belongs to no connection: it is found again by its id, or cancelled",
		Continue: "each run of a fleet begins a session",
	},
}

var openAI = map[string]string{
	StopOne:  noSubagent,
	Progress: "its streams name only the tools of the client",
	Asked:    "it has no message for a question",
	Context:  "it has no field for it",
	Continue: "the client sends the conversation again, or names a stored response",
}

// noSubagent is why a client cannot stop a sub-agent.
const noSubagent = "its messages name no sub-agent"

// Order is the order of the protocols in the table.
var Order = []string{"In Go", "channel", "WebSocket", "OpenAI", "OpenAI over WebSocket", "A2A", "MCP", "MCP over HTTP", "ACP", "`agents run`", "`agents cli`", "fleet"}

// Markdown returns the table for the manual: a row for each ability, and below the table the
// reasons why protocols lack some.
func Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(Order, " | "), strings.Repeat("---|", len(Order)))
	var notes []string
	number := map[string]int{}
	for _, ability := range Abilities {
		b.WriteString("| " + ability)
		for _, edge := range Order {
			cell := "yes"
			if why := Table[edge][ability]; why != "" {
				if number[why] == 0 {
					notes = append(notes, why)
					number[why] = len(notes)
				}
				cell = fmt.Sprintf("no (%d)", number[why])
			}
			b.WriteString(" | " + cell)
		}
		b.WriteString(" |\n")
	}
	b.WriteByte('\n')
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, strings.ToUpper(note[:1])+note[1:]+".")
	}
	return b.String()
}
