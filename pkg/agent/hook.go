package agent

import (
	"context"
	"slices"
	"strings"
)

// The moments at which hooks run.
const (
	HookBeforeCall   = "before_call"
	HookAfterCall    = "after_call"
	HookBeforePrompt = "before_prompt"
	HookSessionStart = "session_start"
	HookEnd          = "end"
)

// HookMoments returns all of them.
func HookMoments() []string {
	return []string{HookBeforeCall, HookAfterCall, HookBeforePrompt, HookSessionStart, HookEnd}
}

// A Hook is a program that runs at a moment of a run. With a nil Run it is one of a caller in
// another process, which runs there.
type Hook struct {
	Name string
	Run  func(ctx context.Context, c *HookCall) (HookAnswer, error)
}

// Hooked are Rights with hooks. They hold for the same agents as the Rights.
type Hooked interface {
	// Hooks returns the hooks for a moment, in the order in which they run.
	Hooks(moment string) []Hook
}

// A HookCall is what a hook is told. The fields behind Path depend on the moment.
type HookCall struct {
	Hook    string   `json:"hook"`
	Session string   `json:"session"`
	Agent   string   `json:"agent"`
	Path    []string `json:"path"`

	// Of a call; Args is a JSON object.
	Key     string  `json:"key,omitempty"`
	Tool    string  `json:"tool,omitempty"`
	Args    string  `json:"-"`
	Effects Effects `json:"effects,omitempty"`
	Source  string  `json:"source,omitempty"`
	Dir     string  `json:"dir,omitempty"`
	// Result is the text that the model would read after a call.
	Result *string `json:"result,omitempty"`
	Failed bool    `json:"failed,omitempty"`

	Prompt string `json:"prompt,omitempty"` // of before_prompt
	Status Status `json:"status,omitempty"` // of end, with the answer
	Answer string `json:"answer,omitempty"`
}

// A HookAnswer is what a hook makes of it. The zero value changes nothing.
type HookAnswer struct {
	// Deny is why the call must not run, or the prompt must not be sent.
	Deny string `json:"deny,omitempty"`
	// Args replaces the arguments of a call, Result the text of its result.
	Args   string  `json:"args,omitempty"`
	Result *string `json:"result,omitempty"`
	// Context is a text for the model, below the prompt.
	Context string `json:"context,omitempty"`
	// Name names the hooks that did so, and Errors say why others failed.
	Name   string   `json:"name,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// Reason returns why something is denied, with the hook that does.
func (a *HookAnswer) Reason(text string) string {
	if hook := "hook " + a.Name; !strings.Contains(text, hook) {
		text += " (" + hook + ")"
	}
	return text
}

// HookContext begins, behind a bracket, what hooks add below a prompt; their names follow.
const HookContext = "added by hook "

// HookText says what the hooks of an EventHook did; "" for one that failed, of which there is a
// warning.
func (e *Event) HookText() string {
	switch {
	case e.Error != "":
		return ""
	case e.Decision == Deny:
		return e.Rule + " denied the prompt: " + e.Text
	case e.What == HookBeforeCall:
		return e.Rule + " replaced the arguments of " + e.Tool
	case e.What == HookAfterCall:
		return e.Rule + " replaced the result of " + e.Tool
	}
	return e.Rule + " added to the prompt: " + e.Text
}

// IsBeforeHook reports whether a hook that fails denies what it was asked about.
func IsBeforeHook(moment string) bool {
	return slices.Contains([]string{HookBeforeCall, HookBeforePrompt}, moment)
}
