package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestReceiptsAgreeWithStrace compares the receipt of a sub-agent with what its tools did according
// to the kernel: the commands with their exit codes, and the files that changed.
func TestReceiptsAgreeWithStrace(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: apt-get install strace")
	}
	const tool = `#!/bin/sh
case "$1 $2" in
describe*) echo '{"slug":"edit","description":"edits","args":[{"name":"what","description":"w","type":"string","arity":"single","mode":"positional"},{"name":"file","description":"f","type":"string","arity":"single","mode":"positional"}]}' ;;
"run write") echo "$$" >"$3" ;;
"run append") echo "$$" >>"$3" ;;
"run move") mv "$3" "$3.moved" ;;
"run remove") rm "$3" ;;
"run read") cat "$3" >/dev/null ;;
"run fail") exit "$3" ;;
esac
`
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			var rules strings.Builder
			calls := 1 + random.IntN(agent.MaxCommands)
			for turn := range calls {
				what, file := []string{"write", "append", "move", "remove", "read", "fail"}[random.IntN(6)], fmt.Sprint(1+random.IntN(4))
				fmt.Fprintf(&rules, `{"when":{"turn":%d},"answer":{"calls":[{"tool":"bash_edit","args":{"what":%q,"file":%q}}]}},`, turn+1, what, file)
			}
			c := agentsCommand(t, map[string]string{
				"lead.json":          `{"tag":"OpenAIAgentDescription","contents":{"slug":"lead","flavor":"scripted","script":"lead-script.json","extraAgents":[{"slug":"worker","path":"worker.json"}]}}`,
				"lead-script.json":   `{"rules":[{"when":{"role":"user"},"answer":{"calls":[{"tool":"expert_worker","args":{"prompt":"go"}}]}},{"answer":{"text":"done"}}]}`,
				"worker.json":        `{"tag":"OpenAIAgentDescription","contents":{"slug":"worker","flavor":"scripted","script":"worker-script.json","announce":"works","toolDirectory":"tools"}}`,
				"worker-script.json": `{"rules":[` + rules.String() + `{"answer":{"text":"I did nothing."}}]}`,
				"tools/edit":         tool,
				"work/1":             "one", "work/2": "two",
			})
			dir, program := c.Dir, filepath.Join(c.Dir, "agents")
			if err := os.Symlink(c.Path, program); err != nil {
				t.Fatal(err)
			}
			traced := exec.Command("strace", "-f", "-q", "-s", "300", "-o", filepath.Join(dir, "trace"), "-e", "trace=execve,openat,rename,renameat,renameat2,unlink,unlinkat", "-e", "signal=none",
				program, "run", "--quiet", "--output", "jsonl", "--agent-file", filepath.Join(dir, "lead.json"), "-p", "go")
			traced.Dir, traced.Env = filepath.Join(dir, "work"), c.Env
			before := contentsOf(t, traced.Dir)
			out, err := traced.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderrOf(err))
			}
			trace, err := os.ReadFile(filepath.Join(dir, "trace"))
			if err != nil {
				t.Fatal(err)
			}
			commands, touched := seen(string(trace))
			if len(commands) != calls {
				t.Fatalf("%d calls, and strace saw %q", calls, commands)
			}
			var changes []string
			after := contentsOf(t, traced.Dir)
			for path := range touched {
				old, was := before[path]
				now, is := after[path]
				switch {
				case !was && is:
					changes = append(changes, path+" created")
				case was && !is:
					changes = append(changes, path+" removed")
				case old != now:
					changes = append(changes, path+" changed")
				}
			}
			slices.Sort(changes)
			r := receiptOf(t, out)
			var said, saidFiles []string
			for _, c := range r.Commands {
				said = append(said, fmt.Sprintf("%s %d", c.Command, *c.Exit))
			}
			for _, f := range r.Files.Changes {
				saidFiles = append(saidFiles, f.Path+" "+f.Change)
			}
			if diff := cmp.Diff(commands, said); diff != "" {
				t.Errorf("commands (-strace +receipt):\n%s", diff)
			}
			if diff := cmp.Diff(changes, saidFiles); diff != "" {
				t.Errorf("files (-strace +receipt):\n%s", diff)
			}
		})
	}
}

var (
	executed = regexp.MustCompile(`^(\d+) +execve\(".*/(edit)", \[".*?", "(run)", "(.*?)", "(.*?)"\]`)
	exited   = regexp.MustCompile(`^(\d+) +\+\+\+ exited with (\d+)`)
	changed  = regexp.MustCompile(`^\d+ +(?:openat\(AT_FDCWD, "([^"/]+)", O_WRONLY|rename\w*\((?:AT_FDCWD, )?"([^"/]+)", (?:AT_FDCWD, )?"([^"/]+)"|unlink\w*\((?:AT_FDCWD, )?"([^"/]+)")`)
)

// seen returns the commands of the tool with their exit codes, and the files of the working folder
// that were opened to be written, renamed or removed.
func seen(trace string) (commands []string, touched map[string]bool) {
	touched = map[string]bool{}
	running := map[string]string{} // by process
	for line := range strings.Lines(trace) {
		if m := executed.FindStringSubmatch(line); m != nil {
			running[m[1]] = strings.Join(m[2:], " ")
		} else if m := exited.FindStringSubmatch(line); m != nil && running[m[1]] != "" {
			commands = append(commands, running[m[1]]+" "+m[2])
		} else if m := changed.FindStringSubmatch(line); m != nil {
			for _, path := range m[1:] {
				if path != "" {
					touched[path] = true
				}
			}
		}
	}
	return commands, touched
}

func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// receiptOf returns the receipt of the sub-agent from the events of a run.
func receiptOf(t *testing.T, events []byte) *agent.Receipt {
	t.Helper()
	for line := range strings.Lines(string(events)) {
		var e agent.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == agent.EventCallEnded && e.Receipt != nil {
			return e.Receipt
		}
	}
	t.Fatalf("no receipt in %s", events)
	return nil
}
