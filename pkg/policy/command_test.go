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
func rights(t testing.TB, approval policy.Approval, rules ...string) *policy.Sets {
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

// TestHiddenCommandsMatch: rules that deny or ask match a command that a line hides from them, or
// might hide in a part that cannot be read.
func TestHiddenCommandsMatch(t *testing.T) {
	touch := []string{
		// Lines that break off: a shell runs what comes before.
		"touch X\n)", "sh -c 'touch X\n)'", "bash -lc 'touch X\n)'", "bash -o pipefail -c 'touch X\n)'", "bash -euo pipefail -c 'touch X\n)'", "bash --norc -c -- 'touch X\n)'", "eval 'touch X\n)'", "eval touch 'X\n)'", "trap 'touch X\n)' EXIT", "trap -- 'touch X\n)' 0",
		"su -c 'touch X\n)'", "su root -c'touch X\n)'", "su --command='touch X\n)'", "su --command 'touch X\n)' root", "su --comm='touch X\n)'", "runuser -u root -lc 'touch X\n)'", "script -qc 'touch X\n)' f", "flock f -c 'touch X\n)'", "watch 'touch X\n)'", "sudo sh -c 'touch X\n)'", "env A=b timeout 5 sh -c 'touch X\n)'",
		"env '-Stouch X\n)'", "busybox sh -c 'touch X\n)'", "xargs -I{} sh -c 'touch X\n)'", "find . -exec sh -c 'touch X\n)' ;", "git bisect run sh -c 'touch X\n)'",
		// Depth and length.
		nested("touch X", 1), nested("touch X", 3), nested("touch X", 5), nested("touch X", 6), nested("ls", 5), nested("eval ls", 4), "sh -c '" + strings.Repeat(":;", 40_000) + "touch X'", "sh -c 'touch\x01X'",
		// Options of env.
		"env '-iStouch X'", "env '-vStouch X'", "env -ivS 'touch X'", "env -u A -S 'touch X'", "env -C / -S 'touch X'", "env --split-string='touch X'", "env --split 'touch X'", "env --s='touch X'", "env -Stouch X", "env '-Stouch\\_X'", "env -u A '-Stouch\\_X'", "env -C d '-Stouch\\_X'", "env --unset A '-Stouch\\_X'", "env --chdir d '-Stouch\\_X'", "env '-S\"tou\"ch X'", "env A=b '-S:; touch X'", "sudo env '-iStouch X'",
		// Texts that bash evaluates.
		"printf -v 'a[$(touch X)]' x", "test -v 'a[$(touch X)]'", "[ -v 'a[$(touch X)]' ]", "[[ -v 'a[$(touch X)]' ]]", "read 'a[$(touch X)]' <f", "wait -p 'a[`touch X`]'", "unset 'a[$(touch X)]'", "declare 'a[$(touch X)]=1'", "let 'a[$(touch X)]=1'", "getopts a 'b[$(touch X)]'", "command printf -v 'a[$(touch X)]' x",
		"x='a[$(touch X)]'; ((x))", "x='a[$(touch X)]'; echo $((x))", "x='a[$(touch X)]'; echo ${b[x]}", "x='a[$(touch X)]'; [[ x -eq 1 ]]", "x='$(touch X)'; echo ${x@P}", "read x <<<'a[$(touch X)]'; ((x))", "PS4='$(touch X)' bash -xc :", "PS4='$(touch X)'; set -x; :", "test -v 'a[${b[$(touch X)]}]'", "test -v 'a[$(printf -v \"b[\\$(touch X)]\" x)]'", "test -v 'a[$(touch X'",
		// What bash reads in another way than the parser.
		"git status #\\\ntouch X", "git status # a \\\ntouch X", "git status <<EOF\nEO\\\nF\ntouch X\nEOF",
		// A shell that reads its commands.
		"echo 'touch X' | sh", "echo 'touch X' | bash -s -- a", "sh <<< 'touch X'", "bash <<E\ntouch X\nE", "bash -x <f", "echo 'touch X' | sudo sh", "cat f | sh /dev/stdin", "cat f | bash -", ". /dev/stdin <<< 'touch X'", "source <(echo touch X)", "bash <(echo touch X)", "cat f | sh -o errexit", "cat f | bash --rcfile x", "bash < <(echo touch X)", "source $F", "source \"$D/stdin\" <f", ". ~/../../dev/fd/0", ". \"$D\"/fd/0 <f", "source /de*/stdin", "ENV=./f sh -i", "ENV=$F sh -i", "find . -exec sh <f ;", "command sh <f", "command -p sh <f", "su root <<< 'touch X'", "sudo -s <<< 'touch X'", "echo touch X | sudo -i", "exec sh <f",
		// Programs that run others.
		"xargs <<< 'X' touch", "xargs -I{} {} X <<< touch", "xargs -I % % X <<< touch", "xargs env <<< 'touch X'", "parallel touch ::: X", "git submodule foreach touch X", "git bisect run touch X", "git rebase --exec 'touch X' a", "git rebase -x 'touch X' a", "eval 't''ouch X'", "ssh h 'touch X'",
		"xargs -I{} env {} X <t", "xargs -I{} timeout 5 {} X <t", "xargs -I{} timeout 0 {} X <t", "xargs -I{} timeout 9 {} X <t", "xargs -n 1 -I {} nice -5 {} X <t", "xargs -i% % X <t", "xargs --replace=% % X <t", "xargs -P 2 -I{} sudo {} X <t", "find /bin -name 'touc[h]' -exec {} X ;", "find /bin -name 'touc[h]' -okdir env {} X ;", "parallel {} X ::: touch",
		"xargs sh -c <f", "xargs -0 -n1 bash -ec <f", "xargs -I{} sh -c {} <f", "xargs -a f -d '\\n' sh -c", "xargs -I{} sh -c 'eval {}' <f", "xargs -i bash -c ': && {}' <f", "xargs --replace sh -c '{} X' <t", "xargs -I % env sh -c '% X' <t", "parallel 'sh -c \"{} X\"' ::: touch",
		"prlimit -n10 touch X", "setarch x86_64 touch X", "sg root 'touch X'", "sg root -c 'touch X\n)'", "rbash -c 'touch X\n)'", "split --filter='touch X' f", "choom -n 0 -- touch X", "capsh -- -c 'touch X\n)'", "ssh -o ProxyCommand='touch X' h", "fakeroot touch X", "jobs -x touch X", "history -s touch X; fc -s", "compgen -C 'touch X'", "compgen -W '$(touch X)'", "mapfile -c 1 -C 'eval touch X;:' <f",
		// What a shell inside the line reads or evaluates.
		"sh -c 'exec sh' <f", "echo 'touch X' | bash -c 'sh -s'", "env -S sh <f", "cat f | sh -c 'eval sh'", "runuser root <f", "unshare -r <f", "doas -s <f", "command . /dev/stdin <f", "builtin source /dev/stdin <f", "x='a[$(touch X)]' bash -c '((x))'", "export x='a[$(touch X)]'; bash -c 'let x'",
		"x='a[$(touch X)]'; for ((x;0;)); do :; done", "x='b[$(touch X)]'; a[x]=1", "x='b[$(touch X)]'; a=([x]=1)", "x='b[$(touch X)]'; exec {a[x]}>f", "env 'BASH_FUNC_t%%=() { touch X; }' bash -c t", "PROMPT_COMMAND='touch X' bash -i", "env PROMPT_COMMAND='touch X' bash -i", "PS1='$(touch X)' dash -i", "PS0='$(touch X)' bash -i",
		// zsh
		"=touch X", "zsh -fc '=touch X'", "noglob touch X", "repeat 1 touch X", "hash t=/bin/touch; t X", "emulate sh -c 'touch X'", "setopt promptsubst; print -P '$(touch X)'", "busybox sh -c \"\\$'touch' X\"",
		// Options of git's commands.
		"git clone -c core.sshCommand='touch X' h:x", "git clone --config=core.sshCommand=x h:x", "git clone --conf core.sshCommand=x h:x", "git clone -u 'touch X;' . y", "git fetch --upload-pack='touch X;' .", "git fetch --upload-p 'touch X;' .", "git ls-remote --exec='touch X\n)' .", "git push --receive-pack='touch X' .", "git grep '-Otouch X' a", "git grep --open-files-in-pager=touch a", "git rebase --exec='touch X' a", "git --attr-source HEAD -c alias.p='!touch X' p",
		// git's configuration, and variables that it runs.
		"git -c alias.p='!touch X' p", "git -c core.pager='touch X' log", "git -c core.sshCommand=x fetch", "git -C d -c Core.fsmonitor=x status", "git --exec-path=/tmp status", "git --config-env=core.pager=A log", "git config alias.p '!touch X'", "git config --global set core.pager x", "git --git-dir d -c diff.external=x diff",
		"GIT_SSH_COMMAND='touch X' git fetch", "PAGER='touch X' git log", "EDITOR='touch X' git commit", "env GIT_EDITOR='touch X' git commit", "export GIT_PAGER='touch X'", "GIT_CONFIG_COUNT=1 git x", "GIT_CONFIG_PARAMETERS=x git x", "GIT_EXEC_PATH=d git x", "GIT_EXTERNAL_DIFF='touch X' git diff", "GIT_SSH=touch git fetch", "GIT_ASKPASS=touch git fetch", "VISUAL='touch X' git commit", "ENV='$F' sh -i", "BASH_ENV=f bash x", "sudo git -c alias.p='!touch X' p",
		// Other names.
		"alias t=touch\nt X", "shopt -s expand_aliases; alias t=touch", "BASH_ALIASES[t]=touch; t X", "BASH_CMDS[t]=/bin/touch", "f() { \"$@\"; }; f touch X", "hash -p /bin/touch t; t X", "to\\\nuch X", "\"to\\\nuch\" X", "ssh h 'touch X\n)'", "t=touch; $t X", "touch${IFS}X", "{touch,X}", "{touch\\,a,X}", "{a{b},touch}", "x{a}{touch,X}", "[a] X", "{touch..X}", "[touch]x X", "find . $X touch",
	}
	for verdict, want := range map[string]agent.Decision{`"deny"`: agent.Deny, `"ask"`: agent.AskPerson, `"ask","reviewer":"human"`: agent.AskPerson} {
		r := rights(t, policy.Never, `{"verdict":`+verdict+`,"command":["touch"]}`, `{"verdict":"allow","tool":"shell"}`)
		for _, line := range touch {
			if v := r.Decide(shell(line)); v.Decision != want || strings.Contains(verdict, "human") && v.Reviewer != "human" {
				t.Errorf("Decide(%.100q) = %+v, want %s", line, v, want)
			}
		}
	}
	push := rights(t, policy.Never, `{"verdict":"deny","command":["git","push"]}`, `{"verdict":"allow","tool":"shell"}`)
	for _, line := range []string{"git -c alias.p=push p", "/usr/lib/git-core/git-push", "git-push origin", "sudo git-push", "xargs git <<< push", "xargs -n 1 git <f", "alias g=git\ng push", "env '-Sgit' push", "env -Sgit push", "git config alias.p push; git p", "parallel git ::: push"} {
		if v := push.Decide(shell(line)); v.Decision != agent.Deny {
			t.Errorf("Decide(%q) = %+v, want deny", line, v)
		}
	}
	export := rights(t, policy.Never, `{"verdict":"deny","command":["export"]}`, `{"verdict":"deny","command":["let"]}`, `{"verdict":"allow","tool":"shell"}`)
	for _, line := range []string{"export A=b", "let a=1"} {
		if v := export.Decide(shell(line)); v.Decision != agent.Deny {
			t.Errorf("Decide(%q) = %+v, want deny", line, v)
		}
	}
}

// TestLinesWithinLinesAreLimited: the lines that these words could be double with each word.
func TestLinesWithinLinesAreLimited(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"deny","command":["touch"]}`)
	for _, word := range []string{"eval ", "env -S ", "watch ", "xargs sh -c 'eval eval x' "} {
		if v := r.Decide(shell(strings.Repeat(word, 100))); v.Decision != agent.Deny {
			t.Errorf("Decide(%q, 100 times) = %+v, want deny", word, v)
		}
	}
}

// nested is a line within sh -c, several times.
func nested(line string, depth int) string {
	for range depth {
		line = "sh -c '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
	}
	return line
}

// TestOrdinaryLinesDoNotMatch: what is read to its end, and is another command, runs.
func TestOrdinaryLinesDoNotMatch(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"deny","command":["touch"]}`, `{"verdict":"deny","command":["git","push"]}`)
	for _, line := range []string{
		nested("ls", 4), nested("eval ls", 3), "sh -c 'ls; echo a'", "bash -c 'ls | wc -l' x", "bash script.sh", "sh ./x.sh arg", "bash --version", "echo a | bash --help", "bash --rcfile f s.sh <x", "timeout 5 grep \"it's\" f", "find . -name \"*'s\"", "xargs -n 1 ls <f", "xargs -I{} grep {} f", "xargs -I{} wc -l {}", "xargs -I {} grep {} f", "sudo echo a$ b", "xargs -I{} sh {} <f", "xargs -I{} ssh {} uptime <f", "xargs -P 4 -I{} curl -s h/{}", "ls | xargs -n1 basename", "find . -exec sh -c 'cat {}' ;", "find . -exec head -n 5 {} ;", "git clone -b main h", "git clone -c user.name=x h", "git grep -n -O a", "git fetch -u origin main", "git log --format='%h' --exclude=a", "split -l 100 f", "history | tail", "mapfile -t a < <(git log)", "PS1='$(pwd) $ ' bash -c ls", "arr[0]=x", "x='it'; a[x]=1", "[ a == b ]", "curl -d =x=y h", "ssh -o A=b h ls", "hash ls", "find . -exec grep foo {} ;",
		"git -c user.name=x commit -m a", "git -c color.ui=never log", "git -c core.quotepath=off ls-files", "git commit -c HEAD~1", "git switch -c alias.x", "git log -c", "git config user.name x", "git config --get core.pager", "git config alias.p", "git -C d status", "git diff -- a-c",
		"printf '%s\\n' a", "test -f a && echo b", "echo '$(touch X)'", "echo '`touch`'", "test a = '$(ls)'", "x=1; ((x++))", "env A=b ls", "env A=touch ls", "MSG='touch X' ls", "FOO='$(touch X)' ls", "PSX1='$(touch X)' ls", "env rg a -S \"it's\"", "env --chdir d rg \"it's\"", "env --unset A rg -S \"it's\"", "echo a | bash --version", "env -u A ls", "env -i PATH=/bin rg -S \"it's\"", "cat <<'E'\na \\\nb\nE", "cat <<E\na\nb\nE", "ls # a comment\ngit log", "EDITOR=true git commit", "GIT_PAGER=cat git log",
		"bash >f 2>&1", "bash >>f", "flock f cat <x", "sudo ls <x", "hash -r", "hash", "flock f.c \"it's\"", "su -l \"it's\"", "flock f -c", "su --c", "su --shell=\"it's\" x", "alias", "alias ll", "trap - EXIT", "trap 'rm -f f' EXIT", "sudo apt-get install zsh", "echo a | tee f", "ls | grep sh", "su -c 'ls' root", "command -v touch-x", "source venv/bin/activate", ". ./env", "time ls", "[[ -f a && -f b ]]", "a=(1 2); echo ${a[0]}",
		"[ -f a ] && echo b", "if [ -d a ]; then ls; fi", "command -v bash &>/dev/null", "command -v zsh | cat", "make &>log; bash", "find / -name bash | head", "find . -name script -o -name eval | wc -l", "ENV=production npm start", "export ENV=test", "env ENV=dev ./x", "git -c core.pager=cat diff", "git -c core.editor=true rebase --continue",
		"git config -f .gitmodules --get-regexp path", "source ~/.bashrc; ls", ". \"$HOME/.cargo/env\" && cargo test", "git show HEAD@{1} HEAD^{commit}", "curl -w %{http_code} h", "docker ps --format {{.ID}}",
	} {
		if v := r.Decide(shell(line)); v.Decision != agent.Allow {
			t.Errorf("Decide(%q) = %+v, want allow", line, v)
		}
	}
}

// TestTheShellThatRunsIsTheOneThatIsJudged: dash reads &> as the end of a command.
func TestTheShellThatRunsIsTheOneThatIsJudged(t *testing.T) {
	r := rights(t, policy.Never, `{"verdict":"deny","command":["touch"]}`, `{"verdict":"allow","tool":"shell"}`)
	for line, want := range map[string][2]agent.Decision{ // in bash, and in others
		"git status &>/dev/null touch X":    {agent.Allow, agent.Deny},
		"[[ a && touch ]]":                  {agent.Allow, agent.Deny},
		"(( touch ))":                       {agent.Allow, agent.Deny},
		"echo $'a\\'; touch X; '":           {agent.Allow, agent.Deny},
		"git status && ls 2>/dev/null":      {agent.Allow, agent.Allow},
		`su -c "x='a[\$(touch X)]'; ((x))"`: {agent.Deny, agent.Deny},
	} {
		for i, shells := range [][]string{{"bash", "/bin/bash"}, {"sh", "dash", "/bin/sh", "zsh"}} {
			for _, name := range shells {
				v := r.Decide(call("shell", fmt.Sprintf(`{"command":%q,"shell":%q}`, line, name)))
				if v.Decision != want[i] {
					t.Errorf("Decide(%q in %s) = %+v, want %s", line, name, v, want[i])
				}
			}
		}
		if v := r.Decide(shell(fmt.Sprintf("dash -c '%s'", strings.ReplaceAll(line, "'", `'\''`)))); v.Decision != want[1] {
			t.Errorf("Decide(%q in dash -c) = %+v, want %s", line, v, want[1])
		}
	}
}
