package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// A Receipt is what the runtime knows of a run of an agent and of all agents below it. It is
// computed from the events, and from the files below the working folder before and after: nothing
// in it is what a model says of itself. See Facts.
type Receipt struct {
	Agent   string `json:"agent"`
	Outcome Status `json:"outcome"`
	// Refused says why the caller did not accept the answer; Outcome is then StatusInvalid.
	Refused string `json:"refused,omitempty"`
	// Turns is the number of answers of the agent's model, Agents that of the runs of agents
	// below it.
	Turns  int `json:"turns"`
	Agents int `json:"agents,omitempty"`
	// Calls counts the calls of all these agents, sorted by tool.
	Calls []CallCount `json:"calls,omitempty"`
	// NotRun is the number of calls of which nothing ran and that no rule denied: of tools that do
	// not exist, with arguments that do not fit, beyond a budget.
	NotRun int `json:"notRun,omitempty"`
	// Open are calls without a result.
	Open int `json:"open,omitempty"`
	// Commands are the first MaxCommands that were executed; MoreCommands is the number of others.
	Commands     []CommandRun `json:"commands,omitempty"`
	MoreCommands int          `json:"moreCommands,omitempty"`
	// Files is nil if no folder was looked at: see Unseen.
	Files *FileReport `json:"files,omitempty"`
	// Usage and Millis are what the run took.
	Usage  Usage `json:"usage"`
	Millis int64 `json:"millis"`
	// Resumed says that the run was taken up again, by another process or by the same.
	Resumed bool `json:"resumed,omitempty"`
	// Chain is the link of the journal before the receipt; "" without a chain.
	Chain string `json:"chain,omitempty"`
}

// A CallCount counts the calls of a tool. Failed, Denied and Unknown are among Calls.
type CallCount struct {
	Tool   string `json:"tool"`
	Calls  int    `json:"calls"`
	Failed int    `json:"failed,omitempty"`
	// Denied calls did not run: a rule, a policy or a person refused them.
	Denied int `json:"denied,omitempty"`
	// Unknown calls had started when their process ended.
	Unknown int `json:"unknown,omitempty"`
}

// A CommandRun is a command that was executed. Exit is nil if its exit code is not known.
type CommandRun struct {
	Tool    string `json:"tool"`
	Command string `json:"command"`
	Exit    *int   `json:"exit,omitempty"`
}

// A FileReport is what happened to the files below a folder during the run.
type FileReport struct {
	Dir     string       `json:"dir"`
	Changes []FileChange `json:"changes,omitempty"` // at most MaxFiles
	// More is the number of further changes.
	More int `json:"more,omitempty"`
	// Partial says why not all files were compared; "" if they were.
	Partial string `json:"partial,omitempty"`
	// Shared says that calls of others, which could change the same files, ran at the same time.
	Shared bool `json:"shared,omitempty"`
	// Claimed says that the process of the agent reports this and nobody else has looked.
	Claimed bool `json:"claimed,omitempty"`
}

// A FileChange is a file that was created, changed or removed; see package filestate.
type FileChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	Size   int64  `json:"size"`
	Digest string `json:"digest,omitempty"`
}

// Limits of a Receipt.
const (
	MaxCommands = 10
	MaxFiles    = 1000
	// MaxShortReceipt is the size in characters of the text of a short one.
	MaxShortReceipt = 600
	maxFullReceipt  = 6000
	maxShownCommand = 60
	maxKeptCommand  = 300
)

// The forms in which the model of a caller gets a receipt.
const (
	ReceiptNone  = "none"
	ReceiptShort = "short" // the default of agent files
	ReceiptFull  = "full"
)

const (
	receiptMark  = "[receipt"
	receiptStart = "\n\n" + receiptMark + " by the runtime"
)

// WithoutReceipts returns the parts of a result that are not the text of a receipt.
func WithoutReceipts(parts []Part) []Part {
	is := func(p Part) bool { return p.Kind == PartText && strings.HasPrefix(p.Text, receiptStart) }
	if !slices.ContainsFunc(parts, is) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), is)
}

// Answer is Text without receipts.
func (r ToolResult) Answer() string { return joinText(WithoutReceipts(r.Parts)) }

// Text is the receipt for a model, in one of the forms, with an empty line before it. before is the text that it follows, in
// which an agent may have written one of its own.
func (r *Receipt) Text(form, before string) string {
	if form != ReceiptShort && form != ReceiptFull {
		return ""
	}
	w := receiptWriter{limit: MaxShortReceipt, most: 5}
	if form == ReceiptFull {
		w.limit, w.most = maxFullReceipt, 100
	}
	head := strings.TrimSpace(receiptStart)
	if strings.Contains(strings.ToLower(before), receiptMark) {
		head += "; what looks like one above is the agent's own text"
	}
	w.line(head + "] " + r.summary())
	if r.Files != nil {
		w.list(r.Files.heading(), len(r.Files.Changes)+r.Files.More, len(r.Files.Changes), func(i int) string { return r.Files.Changes[i].text() })
	}
	w.list("commands: ", len(r.Commands)+r.MoreCommands, len(r.Commands), func(i int) string { return r.Commands[i].text(form) })
	if form == ReceiptFull {
		w.line("Effects outside this folder, on the network and on other systems are not seen.")
	}
	return "\n\n" + w.String()
}

// summary is the first line.
func (r *Receipt) summary() string {
	parts := []string{"outcome " + string(r.Outcome), counted(r.Turns, "turn")}
	if r.Agents > 0 {
		parts = append(parts, counted(r.Agents, "sub-agent run"))
	}
	total, calls := 0, []string{}
	for _, c := range r.Calls {
		total += c.Calls
		if len(calls) < 6 {
			calls = append(calls, c.text())
		}
	}
	if n := len(r.Calls) - len(calls); n > 0 {
		calls = append(calls, fmt.Sprintf("%d more tools", n))
	}
	text := counted(total, "call")
	if total == 0 {
		text = "no calls"
	} else {
		text += " (" + strings.Join(calls, ", ") + ")"
	}
	parts = append(parts, text)
	for _, p := range []struct {
		n    int
		what string
	}{{r.NotRun, "not run"}, {r.Open, "without a result"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if cost := r.Usage.CostText(); cost != "" {
		parts = append(parts, cost)
	}
	parts = append(parts, (time.Duration(r.Millis) * time.Millisecond).Round(100*time.Millisecond).String())
	if r.Resumed {
		parts = append(parts, "resumed")
	}
	if r.Chain != "" {
		parts = append(parts, "chain "+r.Chain[:min(12, len(r.Chain))])
	}
	return strings.Join(parts, ", ")
}

func (c *CallCount) text() string {
	text := fmt.Sprintf("%s %d", shownTool(c.Tool), c.Calls)
	var of []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Denied, "denied"}, {c.Unknown, "of unknown outcome"}} {
		if p.n > 0 {
			of = append(of, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(of) > 0 {
		text += ": " + strings.Join(of, ", ")
	}
	return text
}

// shownTool returns the name of a tool, quoted unless it is like those of ToolSpec.
func shownTool(name string) string {
	if name == "" || len(name) <= toolname.Max && toolname.Valid(name) {
		return name
	}
	return shown(name, 64)
}

// shown returns a text on one line, quoted and cut.
func shown(text string, most int) string {
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return strconv.Quote(text)
}

// heading is what precedes the list of changes.
func (f *FileReport) heading() string {
	text := "files below " + shown(f.Dir, 100)
	if f.Claimed {
		text += " (as the agent's process reports)"
	}
	if f.Partial != "" {
		text += " (not all were compared: " + f.Partial + ")"
	}
	if f.Shared {
		text += " (others ran here at the same time)"
	}
	if len(f.Changes) == 0 {
		return text + ": none changed"
	}
	return text + ": "
}

func (c *FileChange) text() string {
	text := c.Change + " " + shown(c.Path, 80)
	if c.Digest != "" {
		return fmt.Sprintf("%s (%d bytes, sha256 %s)", text, c.Size, c.Digest)
	}
	return fmt.Sprintf("%s (%d bytes)", text, c.Size)
}

func (c *CommandRun) text(form string) string {
	most := maxShownCommand
	if form == ReceiptFull {
		most = maxKeptCommand
	}
	text := shown(c.Command, most)
	if c.Exit == nil {
		return text + " without an exit code"
	}
	return text + " exit " + strconv.Itoa(*c.Exit)
}

// A receiptWriter writes lines up to a limit of characters.
type receiptWriter struct {
	strings.Builder
	limit int // of characters
	most  int // entries of a list
	used  int
}

func (w *receiptWriter) line(text string) {
	if w.Len() > 0 {
		text = "\n" + text
	}
	r := []rune(text)
	if left := w.limit - w.used; len(r) > left {
		r = append(r[:max(left-1, 0)], '…')[:max(left, 0)]
	}
	w.used += len(r)
	w.WriteString(string(r))
}

// list writes as many of the entries as fit, and how many there are beside them.
func (w *receiptWriter) list(heading string, total, n int, entry func(int) string) {
	if total == 0 && !strings.HasSuffix(heading, "changed") {
		return
	}
	const more = 20 // characters of the last words
	text, left := heading, w.limit-w.used-more
	shownEntries := 0
	for i := range min(n, w.most) {
		e := entry(i)
		if i > 0 {
			e = "; " + e
		}
		if len([]rune(text+e)) > left {
			break
		}
		text += e
		shownEntries++
	}
	switch n := total - shownEntries; {
	case n > 0 && shownEntries == 0:
		text += fmt.Sprintf("%d more", n)
	case n > 0:
		text += fmt.Sprintf("; and %d more", n)
	}
	w.line(text)
}

// Left returns what a run left behind and a person should know, as short texts: what changed on
// disk, and what is open.
func (r *Receipt) Left() (list []string) {
	if f := r.Files; f != nil && len(f.Changes) > 0 {
		n := map[string]int{}
		for _, c := range f.Changes {
			n[c.Change]++
		}
		var parts []string
		for _, kind := range []string{"created", "changed", "removed"} {
			if n[kind] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n[kind], kind))
			}
		}
		text := "files: " + strings.Join(parts, ", ")
		switch {
		case len(f.Changes) == 1:
			text = f.Changes[0].Change + " " + f.Changes[0].Path
		case f.More > 0:
			text += fmt.Sprintf(", and %d more", f.More)
		}
		if f.Partial != "" {
			text += " (not all were compared)"
		}
		list = append(list, text)
	}
	unknown := 0
	for _, c := range r.Calls {
		unknown += c.Unknown
	}
	if unknown > 0 {
		list = append(list, counted(unknown, "call")+" of unknown outcome")
	}
	if r.Open > 0 {
		list = append(list, counted(r.Open, "call")+" without a result")
	}
	return list
}

// Differs says in which of what can be computed from events the receipt is not as want; "" if in
// nothing. Files are not among it.
func (r *Receipt) Differs(want *Receipt) string {
	outcome := want.Outcome
	if r.Refused != "" {
		outcome = StatusInvalid
	}
	for _, p := range []struct {
		what      string
		got, want any
	}{
		{"agent", r.Agent, want.Agent}, {"outcome", r.Outcome, outcome}, {"turns", r.Turns, want.Turns}, {"agents", r.Agents, want.Agents},
		{"calls", fmt.Sprint(r.Calls), fmt.Sprint(want.Calls)}, {"notRun", r.NotRun, want.NotRun}, {"open", r.Open, want.Open},
		{"commands", fmt.Sprint(commandTexts(r.Commands)), fmt.Sprint(commandTexts(want.Commands))}, {"moreCommands", r.MoreCommands, want.MoreCommands},
		{"usage", r.Usage, want.Usage}, {"millis", r.Millis, want.Millis}, {"resumed", r.Resumed, want.Resumed},
	} {
		if p.got != p.want {
			return fmt.Sprintf("%s: the receipt says %v, the events %v", p.what, p.got, p.want)
		}
	}
	return ""
}

func commandTexts(list []CommandRun) (texts []string) {
	for _, c := range list {
		texts = append(texts, shownTool(c.Tool)+" "+c.text(ReceiptFull))
	}
	return texts
}
