package tools_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A foreign is a program whose hook files hook-files reads.
type foreign struct {
	name  string
	bash  string // its name of the tool bash
	file  func(event, matcher, command string, seconds float64) any
	deny  func(reason string) any
	renew func(input any) any
}

func foreigns() []foreign {
	nested := func(event, matcher, command string, seconds float64) any {
		hook := map[string]any{"type": "command", "command": command, "timeout": seconds}
		return map[string]any{"permissions": map[string]any{}, "hooks": map[string]any{event: []any{map[string]any{"matcher": matcher, "hooks": []any{hook}}}}}
	}
	own := func(m map[string]any) any {
		m["hookEventName"] = "PreToolUse"
		return map[string]any{"hookSpecificOutput": m}
	}
	deny := func(reason string) any {
		return own(map[string]any{"permissionDecision": "deny", "permissionDecisionReason": reason})
	}
	renew := func(input any) any { return own(map[string]any{"permissionDecision": "allow", "updatedInput": input}) }
	return []foreign{
		{name: "Claude Code", bash: "Bash", file: nested, deny: deny, renew: renew},
		{name: "Codex", bash: "Bash", file: nested, deny: func(reason string) any { return map[string]any{"decision": "block", "reason": reason} }, renew: renew},
		{name: "crush", bash: "bash", file: func(event, matcher, command string, seconds float64) any {
			return map[string]any{"hooks": map[string]any{strings.ToUpper(event): []any{map[string]any{"name": "n", "matcher": matcher, "command": command, "timeout": seconds}}}}
		}, deny: func(reason string) any { return map[string]any{"decision": "deny", "reason": reason} },
			renew: func(input any) any { return map[string]any{"version": 1, "updated_input": input} }},
	}
}

// hookFiles runs the adapter with a file, as the runtime runs a hook.
func hookFiles(t *testing.T, file any, event map[string]any) (answer map[string]any, failure string) {
	t.Helper()
	needs(t, "python3")
	text, err := json.Marshal(file)
	if raw, ok := file.(string); ok {
		text = []byte(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hooks.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	event["session"], event["path"] = "s1", []string{"a"}
	told, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("hooks/hook-files", path, "run")
	cmd.Stdin = strings.NewReader(string(told))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, stderr.String()
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return answer, ""
}

// prints is a command of the shell that prints v as JSON, or a text as it is.
func prints(t *testing.T, v any) string {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return "printf %s '" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// TestHookFilesOfOtherPrograms: what their commands exit with and print, for each of the three.
func TestHookFilesOfOtherPrograms(t *testing.T) {
	call := func() map[string]any {
		return map[string]any{"hook": "before_call", "tool": "bash_bash", "key": "s1.1.1", "args": map[string]any{"command": "ls", "cwd": "x"}}
	}
	for i, f := range foreigns() {
		for n, tc := range []struct {
			name, matcher, command string
			seconds                float64
			want, fails            string
		}{
			{"exit 0", f.bash, "true", 5, `{}`, ""},
			{"exit 2", f.bash, "echo no >&2; exit 2", 5, `{"deny":"no"}`, ""},
			{"JSON denies", f.bash, prints(t, f.deny("not this")), 5, `{"deny":"not this"}`, ""},
			{"JSON with new input", f.bash, prints(t, f.renew(map[string]any{"command": "pwd", "cwd": "x"})), 5, `{"args":{"command":"pwd","cwd":"x"}}`, ""},
			{"no answer in time", f.bash, "sleep 30", 0.1, "", "no answer after 0.1 seconds"},
			{"malformed output", f.bash, prints(t, `{"decision": `), 5, "", "JSONDecodeError"},
			{"what it reads", f.bash, `grep -q '"tool_name": "` + f.bash + `"' && exit 0; exit 2`, 5, `{}`, ""},
			{"text is no decision", f.bash, "echo fine", 5, `{}`, ""},
			{"exit 1 has no effect", f.bash, "exit 1", 5, `{}`, ""},
			{"JSON that ends the turn", f.bash, prints(t, map[string]any{"continue": false, "stopReason": "end"}), 5, `{"deny":"end"}`, ""},
			{"another tool", "Write|other", "exit 2", 5, `{}`, ""},
			{"all tools", "*", "echo all >&2; exit 2", 5, `{"deny":"all"}`, ""},
			{"a pattern", "^" + f.bash[:3], "echo p >&2; exit 2", 5, `{"deny":"p"}`, ""},
			{"our name", "bash_bash", "echo o >&2; exit 2", 5, `{"deny":"o"}`, ""},
		} {
			if i > 0 && n > 6 {
				break // the rest is the same for all
			}
			t.Run(f.name+": "+tc.name, func(t *testing.T) {
				t.Parallel()
				answer, failure := hookFiles(t, f.file("PreToolUse", tc.matcher, tc.command, tc.seconds), call())
				got, _ := json.Marshal(answer)
				if tc.fails == "" && string(got) != tc.want || !strings.Contains(failure, tc.fails) || tc.fails == "" && failure != "" {
					t.Errorf("%s, %q; want %s, %q", got, failure, tc.want, tc.fails)
				}
			})
		}
	}
}

// TestHookFilesAtOtherMoments: prompts, ends, and results.
func TestHookFilesAtOtherMoments(t *testing.T) {
	nested := foreigns()[0].file
	context := prints(t, map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "x", "additionalContext": "know this"}})
	for name, tc := range map[string]struct {
		file  any
		event map[string]any
		want  string
	}{
		"a prompt gets a text":       {nested("UserPromptSubmit", "", "echo more", 5), map[string]any{"hook": "before_prompt", "prompt": "p"}, `{"context":"more"}`},
		"a prompt gets context":      {nested("UserPromptSubmit", "", context, 5), map[string]any{"hook": "before_prompt", "prompt": "p"}, `{"context":"know this"}`},
		"a prompt is denied":         {nested("UserPromptSubmit", "", `grep -q '"prompt": "p"' && echo no >&2; exit 2`, 5), map[string]any{"hook": "before_prompt", "prompt": "p"}, `{"deny":"no"}`},
		"a session begins":           {nested("SessionStart", "startup", "echo day", 5), map[string]any{"hook": "session_start"}, `{"context":"day"}`},
		"a result gets a reason":     {nested("PostToolUse", "Write", "echo format it >&2; exit 2", 5), map[string]any{"hook": "after_call", "tool": "bash_write_file", "args": map[string]any{"path": "a"}, "result": "done"}, `{"result":"done\n\n[added by a hook] format it"}`},
		"a failed call has its own":  {nested("PostToolUse", "", "exit 2", 5), map[string]any{"hook": "after_call", "tool": "bash_bash", "args": map[string]any{}, "result": "r", "failed": true}, `{}`},
		"an end changes nothing":     {nested("Stop", "", "exit 2", 5), map[string]any{"hook": "end", "answer": "x"}, `{}`},
		"arguments are named anew":   {nested("PreToolUse", "Write", prints(t, foreigns()[0].renew(map[string]any{"file_path": "b", "content": "c"})), 5), map[string]any{"hook": "before_call", "tool": "bash_write_file", "args": map[string]any{"path": "a", "content": "c"}}, `{"args":{"content":"c","path":"b"}}`},
		"crush changes one argument": {foreigns()[2].file("PreToolUse", "bash", prints(t, `{"updated_input":{"command":"b"}}`), 5), map[string]any{"hook": "before_call", "tool": "bash", "args": map[string]any{"command": "a", "cwd": "c"}}, `{"args":{"command":"b","cwd":"c"}}`},
		"crush has variables":        {foreigns()[2].file("PreToolUse", "bash", `[ "$CRUSH_TOOL_INPUT_COMMAND" = a ] && exit 49`, 5), map[string]any{"hook": "before_call", "tool": "bash", "args": map[string]any{"command": "a"}}, `{"deny":"[ \"$CRUSH_TOOL_INPUT_COMMAND\" = a ] \u0026\u0026 exit 49 denies without a reason"}`},
		"no hooks":                   {`{"model": "x"}`, map[string]any{"hook": "before_call", "tool": "bash", "args": map[string]any{}}, `{}`},
	} {
		answer, failure := hookFiles(t, tc.file, tc.event)
		if got, _ := json.Marshal(answer); string(got) != tc.want || failure != "" {
			t.Errorf("%s: %s, %q; want %s", name, got, failure, tc.want)
		}
	}
	for name, file := range map[string]any{"no file of hooks": "{", "a hook of a model": map[string]any{"hooks": map[string]any{"PreToolUse": []any{map[string]any{"hooks": []any{map[string]any{"type": "prompt", "prompt": "p"}}}}}}} {
		if answer, failure := hookFiles(t, file, map[string]any{"hook": "before_call", "tool": "bash", "args": map[string]any{}}); failure == "" {
			t.Errorf("%s: %v", name, answer)
		}
	}
}
