package exectool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// A side is a folder that plays the other side of a runner: the command of runner
// executes what it is given in the folder, as if that were /.
type side struct{ dir, cache string }

func newSide(t *testing.T) *side {
	s := &side{dir: t.TempDir(), cache: t.TempDir()}
	script(t, s.path("enter"), `while [ "$1" != / ]; do shift; done
shift
echo "$*" >> `+s.path("log")+`
cd `+s.dir+` && [ ! -e away ] || { echo "no route to host" >&2; exit 255; }
case $1 in agents) ;; *) set -- ".$@" ;; esac
PATH=`+s.dir+`:$PATH exec "$@"
`)
	return s
}

func (s *side) path(name string) string { return filepath.Join(s.dir, name) }

// runner enters the side.
func (s *side) runner() *Prefix { return &Prefix{Command: []string{s.path("enter"), "/"}} }

func (s *side) open(t *testing.T, sources ...Source) *Toolset {
	t.Helper()
	set, err := Open(t.Context(), sources, Options{Environ: os.Environ(), CacheDir: s.cache, SpoolDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// log is what was executed on the side since the last call.
func (s *side) log() string {
	data, _ := os.ReadFile(s.path("log"))
	os.Remove(s.path("log"))
	return string(data)
}

func (s *side) away(t *testing.T, away bool) {
	t.Helper()
	os.Remove(s.path("away"))
	if away {
		write(t, s.path("away"), "")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func toolNames(set *Toolset) []string {
	list := []string{}
	for _, t := range set.List() {
		list = append(list, t.Spec().Name)
	}
	return list
}

func texts(set *Toolset) string {
	var b strings.Builder
	for _, p := range set.Problems() {
		fmt.Fprintf(&b, "%v %s\n", p.Offered, p.Text())
	}
	return b.String()
}

const echoing = `{"slug":"echo","description":"says what it is given","args":[{"name":"text","description":"","type":"text","backing_type":"string","arity":"single","mode":"positional"}]}`

// TestRunnerTool: a tool whose file is only on the other side is described and run
// there.
func TestRunnerTool(t *testing.T) {
	s := newSide(t)
	script(t, s.path("only/there"), describing(echoing, `echo "got $1"`))
	set := s.open(t, Source{Path: "/only/there", Runner: s.runner()})
	if got := toolNames(set); !slices.Equal(got, []string{"bash_echo"}) {
		t.Fatalf("tools = %v; problems: %s", got, texts(set))
	}
	tool := set.List()[0]
	if got, want := tool.Spec().Source, s.path("enter")+" / /only/there"; got != want {
		t.Errorf("Source = %q, want %q", got, want)
	}
	result, err := tool.Call(t.Context(), invocation(`{"text":"a  b"}`))
	if err != nil || result.Text() != "got a  b\n" {
		t.Errorf("Call() = %q, %v", result.Text(), err)
	}
	argv, digest := tool.Command(invocation(`{"text":"x"}`))
	if diff := cmp.Diff([]string{s.path("enter"), "/", "/only/there", "run", "x"}, argv); diff != "" || digest != "" {
		t.Errorf("Command() = digest %q (-want +got):\n%s", digest, diff)
	}
}

// TestRunnerFolder: one process lists and describes the tools of a folder, and what
// the other side leaves out is a problem of this side.
func TestRunnerFolder(t *testing.T) {
	s := newSide(t)
	script(t, s.path("agents"), `case "$*" in
*describe) echo '{"tools":[{"file":"one.sh","description":`+echoing+`},{"file":"odd","description":{}}],"problems":[{"file":"two","error":"it is broken"}]}' ;;
*) echo "$*" ;;
esac
`)
	src := Source{Path: "/tools", Kind: Folder, Filter: "o", Runner: s.runner()}
	set := s.open(t, src)
	if got := toolNames(set); !slices.Equal(got, []string{"bash_echo"}) {
		t.Fatalf("tools = %v", got)
	}
	want := "false slug: it is required\nfalse it is broken\n"
	if got := texts(set); !strings.Contains(got, "slug") || !strings.HasSuffix(got, "false it is broken\n") {
		t.Errorf("problems = %q, want %q", got, want)
	}
	if got := s.log(); got != "agents toolbox --filter o /tools describe\n" {
		t.Errorf("executed %q, want one description", got)
	}
	result, err := set.List()[0].Call(t.Context(), invocation(`{"text":"x"}`))
	if err != nil || result.Text() != "toolbox /tools run one.sh x\n" {
		t.Errorf("Call() = %q, %v", result.Text(), err)
	}
}

// TestRunnerAgent: an agent on the other side has the name of a sub-agent, and the slug must
// be its own.
func TestRunnerAgent(t *testing.T) {
	s := newSide(t)
	script(t, s.path("agents"), `case "$*" in
"--agent-file /a.json describe") echo '`+plain("poet")+`' ;;
*) echo "$*" ;;
esac
`)
	set := s.open(t, Source{Path: "/a.json", Kind: AgentFile, Slug: "poet", Runner: s.runner()})
	if len(set.List()) != 1 {
		t.Fatalf("problems: %s", texts(set))
	}
	tool := set.List()[0]
	if spec := tool.Spec(); spec.Name != "expert_poet" || tool.Agent() != "poet" {
		t.Errorf("Spec() = %+v, Agent() = %q", spec, tool.Agent())
	}
	if line, err := tool.CommandLine("run", "--channel"); err != nil || strings.Join(line[2:], " ") != "agents --agent-file /a.json run --channel" {
		t.Errorf("CommandLine() = %q, %v", line, err)
	}
	other := s.open(t, Source{Path: "/a.json", Kind: AgentFile, Slug: "cook", Runner: s.runner()})
	if got := texts(other); got != "false describe: the agent has the slug \"poet\", not \"cook\"\n" {
		t.Errorf("problems = %q", got)
	}
}

// TestRunnerID: descriptions are kept as long as the output of the command is the
// same; without one they are read at each start.
func TestRunnerID(t *testing.T) {
	s := newSide(t)
	script(t, s.path("x"), describing(plain("x"), ""))
	write(t, s.path("id"), "one\n")
	for _, tt := range []struct {
		name   string
		id     []string
		warned bool
		want   []bool // whether the tool is described at the 1st, 2nd, 3rd (changed id) and 4th start
	}{
		{"none", nil, false, []bool{true, true, true, true}},
		{"command", []string{"cat", s.path("id")}, false, []bool{true, false, true, false}},
		{"failing", []string{"false"}, true, []bool{true, true, true, true}},
		{"silent", []string{"true"}, true, []bool{true, true, true, true}},
		{"missing", []string{"no-such-program"}, true, []bool{true, true, true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, s.path("id"), "one\n")
			src := Source{Path: "/x", Runner: s.runner()}
			src.Runner.ID = tt.id
			for i, want := range tt.want {
				if i == 2 {
					write(t, s.path("id"), "two\n")
				}
				set := s.open(t, src)
				if got := toolNames(set); !slices.Equal(got, []string{"bash_x"}) {
					t.Fatalf("tools = %v; problems: %s", got, texts(set))
				}
				if got := texts(set); strings.Contains(got, "true runnerId: ") != tt.warned {
					t.Errorf("start %d: problems = %q", i+1, got)
				}
				if got := s.log() != ""; got != want {
					t.Errorf("start %d: described = %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

// TestRunnerImage: where the prefix is a run of podman, the id of the image tells
// whether the descriptions still count.
func TestRunnerImage(t *testing.T) {
	s := newSide(t)
	script(t, s.path("x"), describing(plain("x"), ""))
	podman := script(t, filepath.Join(s.dir, "bin", "podman"), `case "$*" in
"--remote image inspect --format {{.Id}} IMG") cat `+s.path("id")+` ;;
"--remote run "*) until [ "$1" = IMG ]; do shift; done; shift; exec `+s.path("enter")+` / "$@" ;;
esac
`)
	src := Source{Path: "/x", Runner: &Prefix{Command: []string{podman, "--remote", "run", "IMG"}}}
	for i, tt := range []struct {
		id   string
		want bool
	}{{"sha256:1", true}, {"sha256:1", false}, {"sha256:2", true}, {"", true}} {
		if os.Remove(s.path("id")); tt.id != "" {
			write(t, s.path("id"), tt.id+"\n")
		}
		if set := s.open(t, src); len(set.List()) != 1 || len(set.Problems()) != 0 {
			t.Fatalf("tools = %v; problems: %s", toolNames(set), texts(set))
		}
		if got := s.log() != ""; got != tt.want {
			t.Errorf("start %d, image %q: described = %v, want %v", i+1, tt.id, got, tt.want)
		}
	}
}

func TestImageID(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"podman run -i --rm --network=none IMG", "podman image inspect --format {{.Id}} IMG"},
		{"/usr/bin/docker --context far run -i --name x IMG", "/usr/bin/docker --context far image inspect --format {{.Id}} IMG"},
		{"podman run -iv a:b IMG", ""},
		{"podman run --volume=a:b IMG", ""},
		{"podman run --mount type=bind,src=a,dst=b IMG", ""},
		{"podman run --pull=always IMG", ""},
		{"podman run --pull=never IMG", "podman image inspect --format {{.Id}} IMG"},
		{"podman exec -i box", ""},
		{"podman run", ""},
		{"ssh host podman run IMG", ""},
	} {
		if got := strings.Join(imageID(strings.Fields(tt.command)), " "); got != tt.want {
			t.Errorf("imageID(%q) = %q, want %q", tt.command, got, tt.want)
		}
	}
}

// TestRunnerAway: another side that is away costs its own tools and nothing else. Those
// that it described before are offered, and a call of them fails.
func TestRunnerAway(t *testing.T) {
	s := newSide(t)
	script(t, s.path("x"), describing(plain("x"), "echo fine"))
	script(t, s.path("new"), describing(plain("new"), "echo fine"))
	here := script(t, filepath.Join(t.TempDir(), "here"), describing(plain("here"), "echo fine"))
	s.open(t, Source{Path: "/x", Runner: s.runner()})
	s.away(t, true)
	sources := []Source{
		{Path: here}, {Path: "/x", Runner: s.runner()}, {Path: "/new", Runner: s.runner()},
		{Path: "/x", Runner: &Prefix{Command: []string{"no-such-program"}}},
	}
	set := s.open(t, sources...)
	if got := toolNames(set); !slices.Equal(got, []string{"bash_here", "bash_x"}) {
		t.Errorf("tools = %v", got)
	}
	for _, want := range []string{
		"true describe: exit status 255: no route to host; the descriptions of an earlier start are used\n",
		"false describe: exit status 255: no route to host\n",
		"false describe: start no-such-program: it is in none of the folders of PATH ",
	} {
		if got := texts(set); !strings.Contains(got, want) {
			t.Errorf("problems = %q, want %q in them", got, want)
		}
	}
	x := set.List()[len(set.List())-1]
	result, err := x.Call(t.Context(), invocation(`{}`))
	if err == nil || err.Error() != "exit status 255" || result.Text() != "\nno route to host\n" {
		t.Errorf("Call() = %q, %v", result.Text(), err)
	}
	s.away(t, false)
	if result, err := x.Call(t.Context(), invocation(`{}`)); err != nil || result.Text() != "fine\n" {
		t.Errorf("after its return: Call() = %q, %v", result.Text(), err)
	}
}

// TestRunnersAtOnce: no side waits for another: each describes its tool when all
// have been asked.
func TestRunnersAtOnce(t *testing.T) {
	t.Parallel()
	const n = 40
	s := newSide(t)
	wait := script(t, s.path("wait"), `touch `+s.path("asked-")+`$1
until [ "$(ls `+s.dir+` | grep -c asked-)" = `+fmt.Sprint(n)+` ]; do sleep 0.01; done
echo '{"slug":"s'$1'","description":"","args":[]}'
`)
	var sources []Source
	for i := range n {
		sources = append(sources, Source{Path: "/x", Runner: &Prefix{Command: []string{wait, fmt.Sprint(i)}}})
	}
	set, err := Open(t.Context(), sources, Options{Environ: os.Environ()})
	if err != nil || len(set.List()) != n {
		t.Errorf("%d tools, %v; problems: %s", len(set.List()), err, texts(set))
	}
}

// TestRunnerShell: what is longer than a shell's command line is refused before
// anything runs.
func TestRunnerShell(t *testing.T) {
	s := newSide(t)
	script(t, s.path("x"), describing(echoing, "echo ran"))
	src := Source{Path: "/x", Runner: s.runner()}
	src.Runner.Shell = true
	tool := &Tool{src: &src, env: os.Environ()}
	line, err := tool.CommandLine("run", "it's", "", "a\n$b")
	if diff := cmp.Diff([]string{"'/x'", "'run'", `'it'\''s'`, "''", "'a\n$b'"}, line[2:]); diff != "" || err != nil {
		t.Errorf("CommandLine() = %v (-want +got):\n%s", err, diff)
	}
	if _, err := tool.CommandLine("run", strings.Repeat("'", 40_000)); err == nil || !strings.Contains(err.Error(), "bytes long together when they are quoted") {
		t.Errorf("CommandLine() = %v, want a refusal", err)
	}
}

// TestRunnerPinned: with Pinned, a prefix whose program changed after Open is not
// executed. Its files are protected.
func TestRunnerPinned(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		s := newSide(t)
		script(t, s.path("x"), describing(plain("x"), "echo ran"))
		set, err := Open(t.Context(), []Source{{Path: "/x", Runner: s.runner()}}, Options{Environ: os.Environ(), Pinned: pinned})
		if err != nil || len(set.List()) != 1 {
			t.Fatalf("%v; problems: %s", err, texts(set))
		}
		if diff := cmp.Diff([]string{s.path("enter"), "/x"}, set.Programs()); diff != "" {
			t.Errorf("Programs() (-want +got):\n%s", diff)
		}
		script(t, s.path("enter"), "echo changed\n")
		result, err := set.List()[0].Call(t.Context(), invocation(`{}`))
		if refused := err != nil && strings.Contains(err.Error(), "has changed since this program started"); refused != pinned {
			t.Errorf("pinned %v: Call() = %q, %v", pinned, result.Text(), err)
		}
	}
}

// A noHost is the run of a call that needs nothing but its lease and its progress.
type noHost struct{ agent.CallingRun }

func (noHost) Progress(*agent.Invocation, string) {}

func (noHost) Lease(context.Context, *agent.Invocation) agent.Lease { return agent.Lease{} }

func (noHost) History(*agent.Invocation) ([]agent.Event, map[string]agent.TotalUsage) {
	return nil, nil
}

func (noHost) Below(*agent.Invocation, func(agent.Directive)) {}

func (noHost) Person() bool { return false }

func (noHost) Called(context.Context, *agent.Invocation, error) {}

// TestContainersHaveALabel: a container is found again by the label of its call, be it a
// tool's or an agent's that speaks the channel.
func TestContainersHaveALabel(t *testing.T) {
	for name, more := range map[string]string{"tool": "", "agent": `,"channel":1`} {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			podman := script(t, filepath.Join(s.dir, "bin", "podman"), `case "$*" in
*" describe") echo '{"slug":"x","description":"d","args":[]`+more+`}' ;;
*) echo "$*" >> `+s.path("log")+` ;;
esac
`)
			set := s.open(t, Source{Path: "/x", Runner: &Prefix{Command: []string{podman, "run", "IMG"}}})
			if len(set.List()) != 1 {
				t.Fatalf("tools = %v; problems: %s", toolNames(set), texts(set))
			}
			inv := invocation(`{}`)
			inv.Caller = noHost{}
			argv, _ := set.List()[0].Command(inv)
			_, _ = set.List()[0].Call(t.Context(), inv) // it is no agent that speaks
			if got, want := s.log(), "run --label agents.call="+inv.Key+" --label agents.start="; !strings.Contains(got, want) || !strings.Contains(got, " IMG /x run") {
				t.Errorf("executed %q, want %q", got, want)
			}
			if got := strings.Join(argv, " "); name == "agent" && !strings.HasSuffix(got, "/x run --channel") {
				t.Errorf("Command = %q", got)
			}
		})
	}
}

// TestAnAgentThatClosesItsOutputIsEnded: its call does not last as long as its process,
// and it is not started again.
func TestAnAgentThatClosesItsOutputIsEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := script(t, filepath.Join(dir, "agent"), `[ "$1" = describe ] && { echo '{"slug":"x","description":"d","args":[],"channel":1}'; exit; }
echo >> `+dir+`/starts
exec >&-
exec sleep 1000
`)
	set, err := Open(t.Context(), []Source{{Path: path}}, Options{Environ: os.Environ()})
	if err != nil || len(set.List()) != 1 {
		t.Fatalf("tools = %v, %v; problems: %s", toolNames(set), err, texts(set))
	}
	inv := invocation(`{}`)
	inv.Caller = noHost{}
	_, err = set.List()[0].Call(t.Context(), inv)
	starts, _ := os.ReadFile(filepath.Join(dir, "starts"))
	if err == nil || !strings.Contains(err.Error(), "its output ended before the run (signal: terminated)") || len(starts) != 1 {
		t.Errorf("Call = %v after %d starts", err, len(starts))
	}
}

// TestAHostThatIsAwayCostsItsTimeLimitOnce: later starts wait a tenth of the time, until
// it answers.
func TestAHostThatIsAwayCostsItsTimeLimitOnce(t *testing.T) {
	t.Parallel()
	s := newSide(t)
	script(t, s.path("tool"), `echo '{"slug":"x","description":"d","args":[]}'`)
	script(t, s.path("host"), `[ ! -e `+s.path("away")+` ] || exec sleep 100
shift
exec "$@"
`)
	open := func(limit time.Duration) string {
		src := Source{Path: s.path("tool"), Runner: &Prefix{Command: []string{s.path("host"), "in"}}}
		set, err := Open(t.Context(), []Source{src}, Options{Environ: os.Environ(), CacheDir: s.cache, SpoolDir: t.TempDir(), DescribeTimeout: limit, Grace: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(strings.TrimSpace(texts(set)), "describe: ")
		return text
	}
	const late, again = "timed out after 0.5 s", "timed out after 0.05 s; it did not answer at an earlier start in the last 10 minutes"
	s.away(t, true)
	for i, want := range []string{late, again, again} {
		if got := open(500 * time.Millisecond); got != want {
			t.Errorf("start %d: %q, want %q", i+1, got, want)
		}
	}
	s.away(t, false)
	if got := open(10 * time.Minute); got != "" {
		t.Errorf("it answers: %q", got)
	}
	s.away(t, true)
	if got := open(500 * time.Millisecond); !strings.HasPrefix(got, late) {
		t.Errorf("away again: %q, want %q", got, late)
	}
}

func TestAToolBehindARunnerHasTheContext(t *testing.T) {
	temp := t.TempDir()
	run := `case $1 in
show) cat; [ -n "$AGENTS_CONTEXT_FILE" ] && cat "$AGENTS_CONTEXT_FILE" ;;
set) printf '{"n": 2, "text": "it'"'"'s \\n"}\n' >"$AGENTS_CONTEXT_FILE" ;;
fail) echo '{"n": 3}' >"$AGENTS_CONTEXT_FILE"; echo out; exit 4 ;;
remove) rm "$AGENTS_CONTEXT_FILE" ;;
esac`
	const described = `{"slug":"SLUG","description":"d",CONTEXT"args":[{"name":"do","description":"","mode":"positional"},{"name":"in","description":"","mode":"stdin","arity":"optional"}]}`
	tools := map[string]agent.Tool{}
	for slug, asks := range map[string]string{"with": `"context":true,`, "without": ""} {
		path := script(t, filepath.Join(t.TempDir(), slug), describing(strings.NewReplacer("SLUG", slug, "CONTEXT", asks).Replace(described), run))
		set, err := Open(t.Context(), []Source{{Path: path, Runner: &Prefix{Command: []string{"env", "-i", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp}}}}, Options{Environ: os.Environ(), SpoolDir: t.TempDir()})
		if err != nil || len(set.List()) != 1 {
			t.Fatal(err, texts(set))
		}
		tools[slug] = set.List()[0]
	}
	r := &runner.Runner{Agent: &agent.Agent{Slug: "boss"}, Context: []byte(`{"n":1}`)}
	for _, c := range []struct{ tool, args, want, err string }{
		{"with", `{"do":"show","in":"first"}`, "first\n{\"n\":1}", ""},
		{"without", `{"do":"show","in":"first"}`, "first\n", "exit status 1"},
		{"with", `{"do":"set"}`, "", ""},
		{"with", `{"do":"fail"}`, "\nout\n", "exit status 4"},
		{"with", `{"do":"remove"}`, "", "the context cannot be read from AGENTS_CONTEXT_FILE: the other side of the runner does not have it any more"},
		{"with", `{"do":"show"}`, `{"n":2,"text":"it's \n"}`, ""},
	} {
		result, err := r.Call(t.Context(), tools[c.tool], c.args)
		if err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) || err == nil && c.err != "" || !strings.Contains(result.Text(), c.want) {
			t.Errorf("%s %s = %q, %v, want %q, %s", c.tool, c.args, result.Text(), err, c.want, c.err)
		}
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%d files are left on the other side", len(left))
	}
}

func TestTheContextBehindAnOutput(t *testing.T) {
	for _, size := range []int{1, 3, 100} {
		var out strings.Builder
		s := &sharedContext{mark: "MARK", stdout: &out}
		for text := "MARoutMAMARKMARK{}"; text != ""; text = text[min(size, len(text)):] {
			s.Write([]byte(text[:min(size, len(text))]))
		}
		if s.flush(); out.String() != "MARoutMA" || string(s.rest) != "MARK{}" {
			t.Errorf("in pieces of %d: %q and %q", size, out.String(), s.rest)
		}
	}
	var out strings.Builder
	s := &sharedContext{mark: "MARK", stdout: &out}
	s.Write([]byte("out MAR"))
	if s.flush(); out.String() != "out MAR" {
		t.Errorf("without a mark: %q", out.String())
	}
}
