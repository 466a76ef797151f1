package ask

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A typist is a person who answers each prompt with the next of some lines.
type typist struct {
	mu    sync.Mutex
	lines []string
	shown strings.Builder
}

// answerWith has the person type lines from now on, and forgets what was shown.
func (y *typist) answerWith(lines ...string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lines = lines
	y.shown.Reset()
}

func (y *typist) text() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return strings.ReplaceAll(y.shown.String(), "\r\n", "\n")
}

func (y *typist) typeTo(person *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := person.Read(buf)
		if err != nil {
			return
		}
		y.mu.Lock()
		y.shown.Write(buf[:n])
		text := y.shown.String()
		if (strings.HasSuffix(text, "elp? ") || strings.HasSuffix(text, "no reason) ")) && len(y.lines) > 0 {
			io.WriteString(person, y.lines[0])
			y.lines = y.lines[1:]
		}
		y.mu.Unlock()
	}
}

// newApprover returns an Approver with a person at a terminal, in folders of its own.
func newApprover(t *testing.T) (*Approver, *typist) {
	t.Helper()
	person, terminal := openTerminal(t)
	dir := t.TempDir()
	p := &program.Env{Err: io.Discard, Getenv: func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }}
	y := &typist{}
	go y.typeTo(person)
	return &Approver{Env: p, Person: at(p, terminal),
		File: filepath.Join(dir, "state", "approvals.json"), Folder: "/here", Session: func() string { return "s1" },
		Refuse: func(err error) { t.Errorf("the run was refused: %v", err) }}, y
}

func question(tool, args string) agent.Event {
	return agent.Event{Kind: agent.EventQuestion, What: "approve", Path: []string{"root", "sub"}, Tool: tool, Args: args, Text: "why it asks", Source: "/tools/" + tool, Digest: "sha256:1"}
}

// ask returns the decision and its reason.
func (a *Approver) ask(t *testing.T, q agent.Event) (decision, reason string) {
	t.Helper()
	answer, err := a.Answer(t.Context(), q)
	if err != nil {
		return "error", err.Error()
	}
	var v struct{ Decision, Reason string }
	if err := json.Unmarshal(answer, &v); err != nil {
		t.Fatal(err)
	}
	return v.Decision, v.Reason
}

func TestNothingInAQuestionIsInvisible(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got := visible("a" + string(r) + "b"); termtext.Hidden(r) && r != '\t' && strings.ContainsRune(got, r) {
			t.Errorf("%U is shown as it is", r)
		}
	}
	if got, want := visible("日本語 é\t😀"), "日本語 é\t😀"; got != want {
		t.Errorf("visible(%q) = %q", want, got)
	}
}

func TestAnswersAndWhatTheyCover(t *testing.T) {
	t.Parallel()
	same, other := question("write", `{"path":"a","n":1}`), question("write", `{"path":"b"}`)
	reordered := question("write", `{"n":1, "path":"a"}`)
	moved := question("write", same.Args)
	moved.Source = "/elsewhere/write"
	changed := same
	changed.Digest = "sha256:2"
	for name, c := range map[string]struct {
		lines    []string
		decision string
		reason   string
		// Whether calls are allowed without a question afterwards: in this run, in
		// one that continues the session in another folder, in another one of the same folder.
		same, other, resumedSame, resumedOther, laterOther bool
	}{
		"yes":                                {lines: []string{"yes\n"}, decision: "allow", reason: "a person allowed it", same: true},
		"y":                                  {lines: []string{"y\n"}, decision: "allow", reason: "a person allowed it", same: true},
		"no with a reason":                   {lines: []string{"no, wrong folder\n"}, decision: "deny", reason: "a person denied it: wrong folder"},
		"no with a reason that is corrected": {lines: []string{"no, x\x7f日本\x7fé\x7f語\n"}, decision: "deny", reason: "a person denied it: 日語"},
		"yes, corrected":                     {lines: []string{"\x7f\x7f語\x7fyes\n"}, decision: "allow", reason: "a person allowed it", same: true},
		"no, then a reason": {lines: []string{"n\n", "because\n"}, decision: "deny",
			reason: "a person denied it: because"},
		"no without a reason": {lines: []string{"no\n", "\n"}, decision: "deny", reason: "a person denied it"},
		"session": {lines: []string{"session\n"}, decision: "allow", reason: "a person allowed it in this session",
			same: true, other: true, resumedSame: true, resumedOther: true},
		"call": {lines: []string{"c\n"}, decision: "allow", reason: "a person allowed it in this session", same: true, resumedSame: true},
		"folder": {lines: []string{"folder\n"}, decision: "allow", reason: "a person allowed it in this folder",
			same: true, other: true, laterOther: true},
		"not an answer":     {lines: []string{"\n", "what\n", "yes please\n", "help\n", "?\n", "yes\n"}, decision: "allow", reason: "a person allowed it", same: true},
		"end of the input":  {lines: []string{"\x04"}, decision: "deny", reason: "a person denied it: the question was not answered"},
		"end at the reason": {lines: []string{"no\n", "\x04"}, decision: "deny", reason: "a person denied it: the question was not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, y := newApprover(t)
			y.answerWith(c.lines...)
			if decision, reason := a.ask(t, same); decision != c.decision || reason != c.reason {
				t.Fatalf("the answer is %s, %q, want %s, %q\n%s", decision, reason, c.decision, c.reason, y.text())
			}
			unasked := func(a *Approver, q agent.Event) bool {
				a.Person = nil
				decision, _ := a.ask(t, q)
				return decision == "allow"
			}
			resumed := &Approver{Env: a.Env, File: a.File, Folder: "/elsewhere", Session: a.Session}
			later := &Approver{Env: a.Env, File: a.File, Folder: a.Folder, Session: func() string { return "s2" }}
			got := map[string]bool{"same": unasked(a, same), "the same in another order": unasked(a, reordered), "other": unasked(a, other),
				"resumed same": unasked(resumed, same), "resumed other": unasked(resumed, other), "later other": unasked(later, other)}
			for what, want := range map[string]bool{"same": c.same, "the same in another order": c.same, "other": c.other,
				"resumed same": c.resumedSame, "resumed other": c.resumedOther, "later other": c.laterOther} {
				if got[what] != want {
					t.Errorf("%s is allowed without a question: %v, want %v", what, got[what], want)
				}
			}
			if unasked(a, moved) || unasked(later, moved) || unasked(a, changed) || unasked(resumed, changed) || unasked(later, changed) || unasked(a, question("other", same.Args)) {
				t.Error("another tool is allowed too")
			}
		})
	}
}

func TestWhatAQuestionShows(t *testing.T) {
	t.Parallel()
	a, y := newApprover(t)
	a.Observe(agent.Event{Kind: agent.EventCallStarted, Tool: "write", Args: `{"path":"a","gone":1,"same":[1, 2]}`})
	q := question("write", `{"path":"b\u001b[2J","same":[1,2],"text":"one\n\u001b]0;title\u0007two\n\u202ethree","new":true}`)
	q.Sandbox = "writes /work, no network"
	y.answerWith("help\n", "yes\n")
	if decision, _ := a.ask(t, q); decision != "allow" {
		t.Errorf("the decision is %s", decision)
	}
	want := `agent root > sub wants to call write:
  | new = true
  | path = "b\u001b[2J"
  | same = [1,2]
  | text = 
  |     one
  |     \u001b]0;title\u0007two
  |     \u202ethree
why:      why it asks
changed:  gone is gone; new is new; path was "a"; text is new
sandbox:  writes /work, no network
[y]es, [n]o, [s]ession, [c]all, [f]older or [h]elp? help
  yes      this call, and the same call again in this run
  no       not this call; text after it is a reason for the model
  session  every call of write in this session
  call     every call of write with these arguments in this session
  folder   every call of write in this folder, in later runs too
[y]es, [n]o, [s]ession, [c]all, [f]older or [h]elp? `
	got := y.text()
	if echo, ok := strings.CutPrefix(got, want); !ok || !strings.HasPrefix("yes\n", echo) { // which the terminal may show later
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}
}

func TestLongArgumentsAreShownOnDemand(t *testing.T) {
	t.Parallel()
	a, y := newApprover(t)
	q := question("write", `{"text":"`+strings.Repeat(`line\n`, 5000)+`hidden\n`+strings.Repeat(`line\n`, 5000)+`"}`)
	y.answerWith("no reason\n")
	a.ask(t, q)
	if text := y.text(); strings.Contains(text, "hidden") || !strings.Contains(text, "bytes are not shown here; `all` shows them]") || !strings.Contains(text, "[f]older, [a]ll or [h]elp?") {
		t.Errorf("shown is\n%s", text)
	}
	y.answerWith("all\n", "no reason\n")
	a.ask(t, q)
	if text := y.text(); !strings.Contains(text, "hidden") {
		t.Errorf("not all is shown:\n%s", text)
	}
}

// TestOnlyAPersonAnswers: what only a person may answer is answered by neither --yes nor
// an answer that was remembered, and "always" asks each time.
func TestOnlyAPersonAnswers(t *testing.T) {
	t.Parallel()
	a, y := newApprover(t)
	q := question("write", `{}`)
	y.answerWith("folder\n")
	if decision, _ := a.ask(t, q); decision != "allow" {
		t.Fatal(decision)
	}
	human, always := q, q
	human.Reviewer, always.Approval = "human", "always"
	y.answerWith("session\n", "no not now\n")
	if decision, reason := a.ask(t, always); decision != "deny" || reason != "a person denied it: not now" {
		t.Errorf("always: %s, %q", decision, reason)
	}
	if text := y.text(); strings.Contains(text, "[s]ession") {
		t.Errorf("an answer that is remembered is offered:\n%s", text)
	}
	a.Yes = true
	if decision, reason := a.ask(t, always); decision != "allow" || reason != "--yes" {
		t.Errorf("always with --yes: %s, %q", decision, reason)
	}
	y.answerWith("no not this\n")
	if decision, reason := a.ask(t, human); decision != "deny" || reason != "a person denied it: not this" {
		t.Errorf("human with --yes: %s, %q", decision, reason)
	}
	y.answerWith("yes\n", "no again\n")
	a.ask(t, human)
	if decision, _ := a.ask(t, human); decision != "deny" {
		t.Error("a yes of a person to a human rule was remembered")
	}
	a.Person = nil
	if decision, reason := a.ask(t, human); decision != "error" || reason != agent.ErrNobody.Error() {
		t.Errorf("human without a person: %s, %q", decision, reason)
	}
}

func TestNobodyAtTheTerminal(t *testing.T) {
	t.Parallel()
	a, _ := newApprover(t)
	var refused error
	a.Refuse = func(err error) { refused = err }
	a.Person.path = filepath.Join(t.TempDir(), "nothing")
	for _, gone := range []bool{false, true} {
		if gone {
			a.Person = nil
		}
		q := question("write", `{}`)
		if _, err := a.Answer(t.Context(), q); !errors.Is(err, agent.ErrNobody) || refused != nil {
			t.Errorf("Answer = %v, refused %v", err, refused)
		}
		q.Approval = "required"
		if _, err := a.Answer(t.Context(), q); !errors.Is(err, agent.ErrNobody) || agent.StatusOf(refused) != agent.StatusRefused || !errors.Is(refused, context.Canceled) {
			t.Errorf("required: Answer = %v, refused %v", err, refused)
		}
		refused = nil
		if _, err := a.Answer(t.Context(), agent.Event{What: "ask"}); !errors.Is(err, agent.ErrNobody) {
			t.Errorf("another question: %v", err)
		}
	}
}

func TestAFileOfApprovalsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"others can write it": {`{"allow":[{"tool":"write","folder":"/here"}]}`, 0o666, "others can write it (mode 0666)"},
		"no JSON":             {`{"allow":[{`, 0o600, "unexpected EOF"},
		"unknown member":      {`{"allow":[{"tool":"write","folder":"/here","agents":"x"}]}`, 0o600, "unknown field"},
		"without a limit":     {`{"allow":[{"tool":"write"}]}`, 0o600, "allow.0: want a tool, and a folder or a session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, y := newApprover(t)
			var warned strings.Builder
			a.Env.Err = &warned
			if err := os.MkdirAll(filepath.Dir(a.File), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(a.File, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(a.File, c.mode); err != nil {
				t.Fatal(err)
			}
			y.answerWith("folder\n")
			if decision, reason := a.ask(t, question("write", `{}`)); decision != "allow" || reason != "a person allowed it in this folder" {
				t.Errorf("%s %s", decision, reason)
			}
			if got, _ := os.ReadFile(a.File); string(got) != c.text {
				t.Errorf("the file was changed to %s", got)
			}
			if !strings.Contains(warned.String(), c.want) || !strings.Contains(warned.String(), "the answer is not kept for later runs") {
				t.Errorf("the warnings are %s", warned.String())
			}
		})
	}
}

// at is a person at a terminal.
func at(p *program.Env, terminal *os.File) *Person {
	return &Person{p: p, path: terminal.Name(), turn: make(chan struct{}, 1)}
}

func TestAQuestionThatWaitsNamesWhoHasTheTerminal(t *testing.T) {
	t.Parallel()
	a, y := newApprover(t)
	told := make(chan string, 1)
	a.Env.Err = writer(func(b []byte) { told <- string(b) })
	locks := filelock.Set{Dir: a.Env.LockDir(), Holder: "other, process 7, at /dev/pts/1"}
	_, release, err := locks.Acquire(t.Context(), toolenv.LockOf(toolenv.TerminalLock, a.Person.path))
	if err != nil {
		t.Fatal(err)
	}
	y.answerWith("y")
	go func() {
		if got, want := <-told, "note: a question waits for the terminal, which is used by other, process 7, at /dev/pts/1\n"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
		release()
	}()
	if decision, reason := a.ask(t, question("write", `{}`)); decision != "allow" {
		t.Errorf("%s %s", decision, reason)
	}
}

// TestWhatIsTypedToSomethingElseIsNoAnswer: keys that were pressed before the prompt do not
// count, nor does a command that somebody types to the shell.
func TestWhatIsTypedToSomethingElseIsNoAnswer(t *testing.T) {
	t.Parallel()
	a, y := newApprover(t)
	y.answerWith("sudo make\n", "yes\n")
	if decision, reason := a.ask(t, question("write", `{}`)); decision != "allow" || reason != "a person allowed it" {
		t.Errorf("%s %s", decision, reason)
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
