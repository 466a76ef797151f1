package work_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/attach"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agent"
	"go.temporal.io/sdk/client"
)

// The places where the agent in the background works: a workflow of its own, or the worker that
// began its call, where it has a workspace or is another process.
var places = []string{"workflow", "workspace", "process"}

// leavingAt is leaving with an agent that works in a place.
func leavingAt(t *testing.T, place, rules string) map[string]string {
	return at(t, place, leaving(rules))
}

func at(t *testing.T, place string, files map[string]string) map[string]string {
	switch place {
	case "workspace":
		files["tools/slow.json"] = strings.Replace(files["tools/slow.json"], `"background":true`, `"background":true,"workspace":"copy","sandbox":{"write":["/tmp"]}`, 1)
	case "process":
		there := t.TempDir()
		for name, path := range map[string]string{"tools/slow.json": "worker.json", "tools/slow.script.json": "slow.script.json", "tools/slows/note": "slows/note"} {
			writeFile(t, filepath.Join(there, path), strings.Replace(files[name], `,"background":true`, "", 1))
			delete(files, name)
		}
		writeFile(t, filepath.Join(there, "bin/agents"), strings.Replace(wrapperFile("slow"), `[ "$1" = describe ]`, `case $* in *describe*) true ;; *) false ;; esac`, 1))
		files["agent.json"] = agentFile("root", fmt.Sprintf(`,"toolDirectory":"tools","extraAgents":[{"slug":"slow","path":%q,"runner":["env","PATH=%s:/usr/bin:/bin"],"background":true,"receipt":"none"}]`, filepath.Join(there, "worker.json"), filepath.Join(there, "bin")))
	}
	return files
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// leaving returns a root with an agent in the background whose tool waits for a file of the test.
// The arguments are the rules of the root's script after the first.
func leaving(rules string) map[string]string {
	return map[string]string{
		"agent.json": agentFile("root", `,"toolDirectory":"tools"`),
		"root.script.json": `{"rules":[
			{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_slow","args":{"prompt":"s"}}]}},` + rules + `]}`,
		"tools/free":             toolFile("free", "once", `touch "$FLEET_LOG.go"`),
		"tools/slow.json":        agentFile("slow", `,"toolDirectory":"slows","background":true,"receipt":"none"`),
		"tools/slow.script.json": `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"bash_note","args":{"text":"s"}}]}},{"answer":{"text":"slow heard ${lastMessage}"}}]}`,
		"tools/slows/note":       strings.Replace(waiting["tools/note"], `"effects":"once"`, `"effects":"idempotent"`, 1),
	}
}

const waitForSlow = `
	{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_wait","args":{}}]}},
	{"answer":{"text":"told: ${lastMessage}"}}`

// ends returns the agents that ended, the results of the root's calls of slow, and what the root was
// told meanwhile, in order.
func (f *fleet) ends(run client.WorkflowRun) (list []string) {
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventEnd:
			list = append(list, e.Agent+" "+string(e.Status))
		case e.Kind == agent.EventCallEnded && e.Tool == "expert_slow":
			list = append(list, "result "+e.Result.Handle)
		case e.Kind == agent.EventMessage && e.Input && e.Depth == 0:
			list = append(list, "told "+e.Key[max(0, len(e.Key)-4):]+" "+string(e.Status))
		}
	}
	return list
}

func TestAnAgentInTheBackground(t *testing.T) {
	for name, tc := range map[string]struct {
		rules  string
		answer string
		ends   []string
	}{
		"its end is told": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_list","args":{}},{"tool":"agent_send","args":{"agent":"slow-1-1","message":"hurry"}},{"tool":"agent_wait","args":{"seconds":0.01}}]}},
			{"when":{"turn":3},"answer":{"calls":[{"tool":"bash_free","args":{"text":"f"}},{"tool":"agent_wait","args":{"agents":["slow-1-1"]}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`,
			"told: [agent slow-1-1 has ended]\nslow heard hurry", []string{"result slow-1-1", "slow ok", "told .1.1 ok", "root ok"}},
		"it is stopped": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_stop","args":{"agent":"slow-1-1","reason":"enough"}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`,
			"told: [agent slow-1-1 has ended]\n[interrupted] agent slow did not answer: a person stopped it: its caller stopped it: enough", []string{"result slow-1-1", "slow interrupted", "told .1.1 failed", "root ok"}},
		"its caller is told once that it would end it": {`
			{"when":{"turn":3},"answer":{"calls":[{"tool":"agent_list","args":{}}]}},
			{"answer":{"text":"early"}}`,
			"early", []string{"result slow-1-1", "told  ", "slow interrupted", "root ok"}},
		"a quick one has an answer": {`{"answer":{"text":"told: ${lastMessage}"}}`, "told: slow heard ok", []string{"slow ok", "result ", "root ok"}},
	} {
		for _, place := range places {
			t.Run(place+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, leavingAt(t, place, tc.rules))
				if name == "a quick one has an answer" {
					if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				f.worker()
				run := f.submit("go")
				out, shown := f.result(run), f.shown(run.GetID())
				want := fmt.Sprintf("%q", tc.answer)
				if place == "workspace" { // what was done there follows
					want = strings.TrimSuffix(want, `"`)
				}
				if out.Status != string(agent.StatusOK) || !strings.Contains(shown, want) {
					t.Errorf("status %s, want the answer %q\n%s", out.Status, tc.answer, shown)
				}
				if got := f.ends(run); !slices.Equal(got, tc.ends) {
					t.Errorf("got %q, want %q\n%s", got, tc.ends, shown)
				}
				if name != "a quick one has an answer" && place != "workspace" && f.alive() { // in its sandbox, processes have other numbers
					t.Error("a process is left")
				}
			})
		}
	}
}

// The worker stops while the root waits for an agent in the background, and another worker continues
// both. The root is told nothing twice.
func TestAnAgentInTheBackgroundOutlivesAWorker(t *testing.T) {
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, leavingAt(t, place, waitForSlow))
			stop := f.worker()
			run := f.submit("go")
			f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
			f.pid()
			stop()
			if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f.worker()
			f.result(run)
			if got, want := f.ends(run), []string{"result slow-1-1", "slow ok", "told .1.1 ok", "root ok"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q\n%s", got, want, f.shown(run.GetID()))
			}
		})
	}
}

// A cancelled run ends its agents in the background first, also if its worker stops meanwhile.
func TestCancelWithAnAgentInTheBackground(t *testing.T) {
	for _, place := range []string{"workflow", "workspace", "process", "process and another worker"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			place, stops := strings.CutSuffix(place, " and another worker")
			f := newFleet(t, leavingAt(t, place, waitForSlow))
			stop := f.worker()
			run := f.submit("go")
			f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
			f.pid()
			if err := f.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
				t.Fatal(err)
			}
			if stops {
				stop()
				f.worker()
			}
			if err := run.Get(t.Context(), nil); err == nil {
				t.Error("the run did not end as cancelled")
			}
			if got, want := f.ends(run), []string{"result slow-1-1", "slow interrupted", "root interrupted"}; !slices.Equal(got, want) || place != "workspace" && f.alive() {
				t.Errorf("got %q, want %q\n%s", got, want, f.shown(run.GetID()))
			}
		})
	}
}

// A run that is cancelled ends although its agent in the background waits for a place on a worker.
func TestCancelWithAnAgentThatHasNoPlace(t *testing.T) {
	f := newFleet(t, leavingAt(t, "process", waitForSlow))
	stop := f.worker()
	var runs []client.WorkflowRun
	for range 3 {
		run := f.submit("go")
		runs = append(runs, run)
		f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
	}
	stop()
	f.worker(func(o *work.Options) { o.Activities = 1 })
	for _, run := range runs {
		if err := f.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range runs {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_ = run.Get(ctx, nil) // the record has the ends
		cancel()
		if got, want := f.ends(run), []string{"result slow-1-1", "slow interrupted", "root interrupted"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q\n%s", got, want, f.shown(run.GetID()))
		}
	}
}

// A person can send messages to an agent in the background, and stop it, wherever it works. After a
// worker has stopped, the agent reads no message twice.
func TestAPersonSpeaksToAnAgentInTheBackground(t *testing.T) {
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			files := leaving(waitForSlow)
			files["tools/slow.script.json"] = `{"rules":[{"when":{"lastMessage":"second"},"answer":{"text":"heard"}},{"answer":{"calls":[{"tool":"bash_note","args":{"text":"${turn}"}}]}}]}`
			files["tools/slows/note"] = toolFile("note", "idempotent", "sleep 0.1")
			f := newFleet(t, at(t, place, files))
			stop := f.worker()
			run := f.submit("go")
			slow := f.wait(run.GetID(), "the call", func(e agent.Event) bool { return callStarted(e) && e.Tool == "bash_note" }).Session
			a := &attach.Run{Client: f.client, Store: f.store, ID: run.GetID()}
			if err := a.Input(t.Context(), slow, agent.UserText("first")); err != nil {
				t.Fatal(err)
			}
			f.wait(run.GetID(), "the message", func(e agent.Event) bool { return e.Session == slow && e.Kind == agent.EventMessage && e.Input })
			stop()
			f.worker()
			if err := a.Input(t.Context(), slow, agent.UserText("second")); err != nil {
				t.Fatal(err)
			}
			f.result(run)
			var read []string
			for _, e := range f.events(run.GetID()) {
				if e.Session == slow && e.Kind == agent.EventMessage && e.Input {
					read = append(read, e.Message.Text())
				}
			}
			if !slices.Equal(read, []string{"first", "second"}) {
				t.Errorf("it read %q\n%s", read, f.shown(run.GetID()))
			}
			if err := a.Input(t.Context(), slow, agent.UserText("late")); !errors.Is(err, attach.ErrEnded) {
				t.Errorf("a message after the end: %v", err)
			}
			if err := a.Stop(t.Context(), slow, ""); !errors.Is(err, attach.ErrEnded) {
				t.Errorf("a stop after the end: %v", err)
			}
		})
	}
}

// What the runtime tells an agent, and messages that a hook denies, do not count as messages of a
// person that were read: none is lost, and none is read twice.
func TestMessagesOfAPersonAreReadOnce(t *testing.T) {
	f := newFleet(t, map[string]string{
		"agent.json": agentFile("root", `,"toolDirectory":"tools","hooks":{"before_prompt":"hooks/guard","after_call":"hooks/check"}`),
		"hooks/guard": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"guard","description":"d","args":[{"name":"event","description":"e","backing_type":"object","arity":"single","mode":"stdin"}]}'; exit; }
case $(cat) in *forbidden*) echo '{"deny":"no"}' ;; *) echo '{}' ;; esac`,
		"hooks/check": `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"check","description":"d","args":[{"name":"event","description":"e","backing_type":"object","arity":"single","mode":"stdin"}]}'; exit; }
echo '{"result":"checked"}'`,
		"root.script.json": `{"rules":[
			{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_slow","args":{"prompt":"s"}}]}},
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_wait","args":{}}]}},
			{"when":{"turn":3},"answer":{"calls":[{"tool":"bash_hold","args":{"text":"1"}},{"tool":"bash_hold","args":{"text":"1"}}]}},
			{"when":{"turn":4},"answer":{"calls":[{"tool":"bash_hold","args":{"text":"2"}}]}},
			{"when":{"turn":5},"answer":{"calls":[{"tool":"bash_hold","args":{"text":"3"}}]}},
			{"answer":{"text":"done"}}]}`,
		"tools/hold":             toolFile("hold", "once", `while [ ! -e "$FLEET_LOG.$3" ]; do sleep 0.05; done`),
		"tools/slow.json":        agentFile("slow", `,"background":true`),
		"tools/slow.script.json": `{"rules":[{"answer":{"text":"slow"},"delayMillis":2500}]}`,
	})
	f.worker()
	run := f.submit("go")
	for i, texts := range [][]string{{"forbidden"}, {"one", "two"}, {"three"}} {
		f.wait(run.GetID(), "call", func(e agent.Event) bool { return callStarted(e) && e.Turn == i+3 })
		for _, text := range texts {
			f.update(run, flow.UpdateInput, flow.InputMessage{Blob: f.blob(agent.UserText(text))})
		}
		if err := os.WriteFile(fmt.Sprintf("%s.%d", f.log, i+1), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.result(run)
	var got []string
	for _, e := range f.events(run.GetID()) {
		switch {
		case e.Kind == agent.EventMessage && e.Input && e.Key == "":
			got = append(got, e.Message.Text())
		case e.Kind == agent.EventHook && e.Key == "":
			got = append(got, "denied: "+e.Text)
		}
	}
	if want := []string{"denied: no", "one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("the root read %q, want %q\n%s", got, want, f.shown(run.GetID()))
	}
}

// Hooks after the call of a sub-agent decide what its caller reads, whether it waited or not.
func TestHooksAfterTheCallOfASubagent(t *testing.T) {
	const hook = `#!/bin/sh
[ "$1" = describe ] && { echo '{"slug":"check","description":"d","args":[{"name":"event","description":"e","backing_type":"object","arity":"single","mode":"stdin"}]}'; exit; }
case $(cat) in *'"expert_slow"'*) echo '{"result":"checked"}' ;; *) echo '{}' ;; esac`
	for _, place := range places {
		for _, quick := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/quick %v", place, quick), func(t *testing.T) {
				t.Parallel()
				files := leavingAt(t, place, waitForSlow)
				files["hooks/check"] = hook
				files["agent.json"] = strings.Replace(files["agent.json"], `,"toolDirectory"`, `,"hooks":{"after_call":"hooks/check"},"toolDirectory"`, 1)
				f := newFleet(t, files)
				release := func() {
					if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if quick {
					release()
				}
				f.worker()
				run := f.submit("go")
				if !quick {
					f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
					release()
				}
				f.result(run)
				shown, hooks := f.shown(run.GetID()), 0
				for _, e := range f.events(run.GetID()) {
					if e.Kind == agent.EventHook {
						hooks++
					}
				}
				want := "[agent slow-1-1 has ended]\nchecked"
				if quick {
					want = "checked"
				}
				if !strings.Contains(shown, fmt.Sprintf("%q", want)) || hooks != 1 {
					t.Errorf("%d hooks; want %q\n%s", hooks, want, shown)
				}
			})
		}
	}
}

// detaching returns a root that asks an agent, which starts slow and ends at once; with deep, another
// agent is between them. The arguments are the rules of the root's script after the first.
func detaching(deep bool, rules string) map[string]string {
	files := leaving("")
	const ends = `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_%s","args":{"prompt":"s"}}]}},{"answer":{"text":"%s: ${lastMessage}"}}]}`
	files["root.script.json"] = `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_mid","args":{"prompt":"m"}}]}},` + rules + `]}`
	files["tools/mid.json"], files["tools/mid.script.json"] = agentFile("mid", `,"toolDirectory":"mids","receipt":"none"`), fmt.Sprintf(ends, "slow", "mid")
	place := "tools/mids/"
	if deep {
		files["tools/mid.script.json"] = fmt.Sprintf(ends, "low", "mid")
		files["tools/mids/low.json"], files["tools/mids/low.script.json"] = agentFile("low", `,"toolDirectory":"lows","receipt":"none"`), fmt.Sprintf(ends, "slow", "low")
		place = "tools/mids/lows/"
	}
	for _, name := range []string{"slow.json", "slow.script.json", "slows/note"} {
		files[place+name] = strings.Replace(files["tools/"+name], `"background":true`, `"background":true,"detach":true`, 1)
		delete(files, "tools/"+name)
	}
	return files
}

// An agent that outlives its caller belongs to the caller's caller, up to the root: this one is told
// of its end, can wait for it, send it messages and stop it, and does not end before it; also if
// workers stop.
func TestAnAgentThatOutlivesItsCaller(t *testing.T) {
	const ended = "[agent slow-1-1.1-1 has ended]\n"
	for name, tc := range map[string]struct {
		rules   string
		answer  string
		ends    []string // with those between
		release bool     // slow, once the root waits
		stop    bool     // the worker first
	}{
		"it is waited for": {waitForSlow, "told: " + ended + "slow heard ok", []string{"slow ok", "root ok"}, true, false},
		"after a worker":   {waitForSlow, "told: " + ended + "slow heard ok", []string{"slow ok", "root ok"}, true, true},
		"it gets a message": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_send","args":{"agent":"slow-1-1.1-1","message":"hurry"}},{"tool":"agent_wait","args":{"seconds":0.01}}]}},
			{"when":{"turn":3},"answer":{"calls":[{"tool":"bash_free","args":{"text":"f"}},{"tool":"agent_wait","args":{}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`, "told: " + ended + "slow heard hurry", []string{"slow ok", "root ok"}, false, false},
		"it is stopped": {`
			{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_stop","args":{"agent":"slow-1-1.1-1"}}]}},
			{"answer":{"text":"told: ${lastMessage}"}}`, "told: " + ended + "[interrupted] agent slow did not answer: a person stopped it: its caller stopped it", []string{"slow interrupted", "root ok"}, false, false},
		"the root ends it": {`{"answer":{"text":"early"}}`, "early", []string{"slow interrupted", "root ok"}, false, false},
	} {
		for _, deep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/deep %v", name, deep), func(t *testing.T) {
				t.Parallel()
				rules, answer, ends := tc.rules, tc.answer, append([]string{"mid ok"}, tc.ends...)
				if deep {
					rules, answer = strings.ReplaceAll(rules, "slow-1-1.1-1", "slow-1-1.1-1.1-1"), strings.ReplaceAll(answer, "slow-1-1.1-1", "slow-1-1.1-1.1-1")
					ends = append([]string{"low ok"}, ends...)
				}
				f := newFleet(t, detaching(deep, rules))
				stop := f.worker()
				run := f.submit("go")
				if tc.release {
					f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
					f.pid()
					if tc.stop {
						stop()
						f.worker()
					}
					if err := os.WriteFile(f.log+".go", nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				out, shown := f.result(run), f.shown(run.GetID())
				if out.Status != string(agent.StatusOK) || !strings.Contains(shown, fmt.Sprintf("%q", answer)) {
					t.Errorf("status %s, want the answer %q\n%s", out.Status, answer, shown)
				}
				got := slices.DeleteFunc(f.ends(run), func(s string) bool {
					return !strings.HasSuffix(s, "ok") && !strings.HasSuffix(s, "interrupted") || strings.HasPrefix(s, "told")
				})
				if !slices.Equal(got, ends) || f.alive() {
					t.Errorf("got %q, want %q\n%s", got, ends, shown)
				}
			})
		}
	}
}

// If the server ends a workflow without asking it, what worked for it ends too, and the end of each
// agent is recorded.
func TestATerminatedAgentLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		deep bool
		mid  string // the rules of mid after the first
		kill string
		ends []string
	}{
		"a caller": {false, waitForSlow, "mid", []string{"mid interrupted", "root ok", "slow interrupted"}},
		"a caller of one that has outlived another": {true, `{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_wait","args":{}}]}},{"answer":{"text":"told"}}`, "mid", []string{"low ok", "mid interrupted", "root ok", "slow interrupted"}},
		"one that has outlived a caller":            {false, `{"answer":{"text":"mid"}}`, "slow", []string{"mid ok", "root ok", "slow interrupted"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := detaching(tc.deep, `{"when":{"turn":2},"answer":{"calls":[{"tool":"agent_wait","args":{"seconds":5}}]}},{"answer":{"text":"early"}}`)
			below := "slow"
			if tc.deep {
				below = "low"
			}
			files["tools/mid.script.json"] = `{"rules":[{"when":{"turn":1},"answer":{"calls":[{"tool":"expert_` + below + `","args":{"prompt":"s"}}]}},` + tc.mid + `]}`
			f := newFleet(t, files)
			f.worker()
			run := f.submit("go")
			f.wait(run.GetID(), "the wait", func(e agent.Event) bool { return callStarted(e) && e.Tool == "agent_wait" })
			f.pid()
			of := f.wait(run.GetID(), "its session", func(e agent.Event) bool { return e.Kind == agent.EventSession && e.Agent == tc.kill })
			if err := f.client.TerminateWorkflow(t.Context(), of.Session, "", "a test"); err != nil {
				t.Fatal(err)
			}
			f.result(run)
			f.wait(run.GetID(), "the end of slow", func(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Agent == "slow" })
			got := slices.DeleteFunc(f.ends(run), func(s string) bool { return strings.HasPrefix(s, "told") || strings.HasPrefix(s, "result") })
			slices.Sort(got)
			if !slices.Equal(got, tc.ends) || f.alive() {
				t.Errorf("got %q, want %q\n%s", got, tc.ends, f.shown(run.GetID()))
			}
		})
	}
}
