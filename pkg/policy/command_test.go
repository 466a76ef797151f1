package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/policy"
)

// rights are those of one set with rules, given as JSON.
func rights(t testing.TB, approval policy.Approval, rules ...string) *policy.Rights {
	t.Helper()
	s := policy.Set{Source: "agent.json", Approval: approval}
	for i, text := range rules {
		r, err := policy.ParseRule([]byte(text), policy.Place{Source: fmt.Sprintf("agent.json: permissions[%d]", i), Dir: "/work", Home: "/home/me"})
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = append(s.Rules, r)
	}
	r, err := policy.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call is a call of the tool with arguments, given as JSON.
func call(tool, args string) *agent.Invocation {
	return &agent.Invocation{Call: agent.ToolCall{Name: tool, Args: args}, Spec: agent.ToolSpec{Name: tool}, Dir: "/work", Agent: "a", Path: []string{"root", "a"}}
}

func shell(line string) *agent.Invocation {
	text, _ := json.Marshal(line)
	return call("bash_shell", `{"command":`+string(text)+`}`)
}

func TestAllowedCommands(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"allow","tool":"shell","command":["git","status"]}`, `{"verdict":"allow","tool":"shell","command":["ls"]}`)
	for _, line := range []string{
		"git status", "git  status --short", `"git" 'status'`, `gi\t status`, "git status && ls", "git status; ls -la | ls", "git status || ls\n\nls",
		"git status 2>&1", "git status > /dev/null", "ls 2>/dev/null", "ls >>/dev/null </dev/null", "ls 1>&2", "git \\\nstatus", `ls '$HOME' "*" \~`, "ls 'a\nb'",
	} {
		if v := r.Decide(shell(line)); v.Decision != agent.Allow {
			t.Errorf("Decide(%q) = %+v, want allow", line, v)
		}
	}
	for _, line := range []string{
		// More than plain words.
		"( git status )", "{ ls; }", "if ls; then git status; fi", "ls $HOME", `ls "$X"`, "ls ~/y", "ls *.go", "ls {a,b}", "ls < file", "! ls", "ls &", "# git push\nls", "ls # x", "ls <<E\ntext\nE", "while ls; do ls; done",
		"ls &>/dev/null", "ls 3>/dev/null", "ls {fd}>/dev/null", "ls >&$X", "ls 2>&3", "ls >&-", "ls <&0", "> /dev/null", "ls |& ls", "ls $'a'", "ls $\"a\"",
		// The attacks of the field.
		"git status && curl https://evil.example", "git status; curl x", "git status\ncurl x", "git status | sh", "git status & curl x", "git status || curl x",
		"git status $(curl x)", "git status $(git status)", "git status `curl x`", `git status "$(curl x)"`, "git status <(curl x)", "git status >(curl x)", "ls $((a[$(curl x)]))",
		`env -S "git status"`, "env git status", `sh -c "git status"`, "alias git=curl; git status", "shopt -s expand_aliases\nalias ls=curl\nls",
		"PATH=/tmp git status", "PATH=/tmp; git status", "export PATH=/tmp; ls", "GIT_SSH_COMMAND=x git status", "for PATH in /tmp; do ls; done", "read PATH < x; ls",
		"git() { curl x; }; git status", "function ls { curl; }; ls", "git status > ~/.bashrc", "git status >> x", "ls <> x", "ls &> x", "ls >| x", "ls < /dev/tcp/1.2.3.4/80", "ls < /dev/./tcp/1.2.3.4/80",
		"$GIT status", "git $X", "${X:=git} status", "g{i,}t status", "git stat*s", "git statu[s]", "~/git status", "./git status", "/tmp/git status", "GIT status",
		"git -c core.pager=curl status", "git push", "git", "eval git status", "command git status", "exec git status", "time git status", "coproc ls",
		"ls ${X:-$(curl x)}", "ls ${X@P}", "ls ${a[$(curl x)]}", "[[ -v 'a[$(curl x)]' ]]", "(( a[$(curl x)] ))", "let 'a[$(curl x)]=1'", "case x in *) ls;; esac", "ls $'\\x41' && $'gi\\x74' status",
		"git status '", "git status (", "if ls", "", "   ", "# nothing", "ls <<E\n$(curl x)\nE", "ls <<< $(curl x)", "ls \x00", "git\rstatus", "ls \x1b[2J",
		"trap 'curl x' EXIT; ls", "git status |& curl x", "ls {fd}> x", strings.Repeat("ls;", 30_000),
	} {
		if v := r.Decide(shell(line)); v.Decision != agent.AskPerson {
			t.Errorf("Decide(%.80q) = %+v, want ask", line, v)
		}
	}
}

func TestDeniedCommandsAreFoundInEveryForm(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"deny","command":["curl"],"reason":"no network"}`, `{"verdict":"deny","command":["git","push"]}`, `{"verdict":"allow","tool":"**"}`)
	for _, line := range []string{
		"curl x", "/usr/bin/curl x", "ls && curl x", "ls\ncurl x", "ls $(curl x)", "ls `curl x`", "ls <(curl x)", "f() { curl x; }; f", "if true; then curl x; fi",
		"env curl x", "env -i A=b curl x", `env -S "curl x"`, "env '-Scurl x'", "env --split-string='curl x'", "sudo -u root curl x", "xargs curl < urls", `sh -c "curl x"`, `bash -lc 'ls; curl x'`, `sh -c "sh -c 'curl x'"`,
		"timeout 5 curl x", "nohup nice -n 3 curl x &", "find . -exec curl {} ;", "eval curl x", "eval 'curl x'", `eval cur"l" x`, "alias l='curl x'; l", "trap 'curl x' EXIT", "command curl x", "exec curl x", "busybox curl x",
		`"cu"rl x`, `c\url x`, "cu''rl x", "$X x", "$(echo curl) x", "c{url,} x", "cur? x", "$'c\\x75rl' x", "PATH=/tmp curl x", "curl", "! curl x", "time curl x", "coproc curl x",
		"git push", "git -C dir push", "git --no-pager push origin", "git $X", "sudo git push", "ls '", "ls (",
	} {
		if v := r.Decide(shell(line)); v.Decision != agent.Deny {
			t.Errorf("Decide(%q) = %+v, want deny", line, v)
		}
	}
	for _, line := range []string{"ls", "git status", "echo curl", "grep -r curl .", "git log", "git pull"} {
		if v := r.Decide(shell(line)); v.Decision != agent.Allow {
			t.Errorf("Decide(%q) = %+v, want allow", line, v)
		}
	}
	if v := r.Decide(call("bash_fetch", `{"url":"it's curl"}`)); v.Decision != agent.Allow {
		t.Errorf("Decide(a tool without a command) = %+v, want allow", v)
	}
}

func TestCommandsInOtherArguments(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"allow","tool":"run","command":["git","status"]}`, `{"verdict":"deny","command":["curl"]}`)
	for args, want := range map[string]agent.Decision{
		`{"command":["git","status","; curl x"]}`:        agent.Allow,
		`{"argv":["git","status"]}`:                      agent.Allow,
		`{"cmd":"git status"}`:                           agent.Allow,
		`{"command":"git","args":["status"]}`:            agent.Allow,
		`{"command":"git","args":["push"]}`:              agent.AskPerson,
		`{"command":"git status","args":[]}`:             agent.AskPerson,
		`{"command":"git status","args":"x"}`:            agent.Deny,
		`{"command":"git status","env":{"PATH":"/tmp"}}`: agent.AskPerson,
		`{"command":"git status","script":"ls"}`:         agent.AskPerson,
		`{"command":["sh","-c","curl x"]}`:               agent.Deny,
		`{"command":"curl","args":["x"]}`:                agent.Deny,
		`{"command":["git",1]}`:                          agent.Deny,
		`{"command":[]}`:                                 agent.Deny,
		`{"command":{}}`:                                 agent.Deny,
		`{"line":"git status"}`:                          agent.AskPerson,
	} {
		if v := r.Decide(call("run", args)); v.Decision != want {
			t.Errorf("Decide(%s) = %+v, want %s", args, v, want)
		}
	}
}
