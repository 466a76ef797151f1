package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/agent/agenttest"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// TestLiveShowsARun records the screen after every event of the story, 100
// ms apart, with the answer streamed to the same screen.
func TestLiveShowsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 72, 12)
		text := &Text{W: s, Live: true, Color: true, Size: func() (int, int) { return 72, 12 }}
		stream := &Stream{W: text.Stdout(s)}
		watch := observe.Tee(text.Observe, stream.Observe)
		var got strings.Builder
		last := ""
		for _, e := range agenttest.Story() {
			watch(e)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if now := s.String(); now != last {
				fmt.Fprintf(&got, "--- %s %s\n%s", e.Kind, e.Agent, now)
				last = now
			}
		}
		text.Close()
		fmt.Fprintf(&got, "--- closed\n%s", s)
		golden(t, "live.txt", got.String())
	})
}

func TestLiveElapsedTimeAdvancesUntilClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 40, 10)
		text := &Text{W: s, Live: true, Size: s.size}
		text.Observe(agenttest.Call(1, "k", "sleep", ""))
		for _, want := range []string{"0.4 s", "0.8 s"} {
			time.Sleep(400 * time.Millisecond)
			synctest.Wait()
			want = "• main                            " + want + "\n  • sleep                         " + want + "\n"
			if got := s.String(); got != want {
				t.Errorf("screen %q, want %q", got, want)
			}
		}
		text.Close()
		if got := s.String(); got != "\n" {
			t.Errorf("screen after Close %q, want nothing", got)
		}
		select {
		case <-text.ticked:
		default:
			t.Error("Close did not wait for the ticker")
		}
		writes := s.count()
		text.Observe(agenttest.Call(1, "k2", "sleep", ""))
		text.Close()
		time.Sleep(time.Second)
		if n := s.count(); n != writes {
			t.Errorf("%d writes after Close", n-writes)
		}
	})
}

func TestLiveIsNotRedrawnWhileAToolAsksThePerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 40, 10)
		text := &Text{W: s, Live: true, Size: s.size, Asks: func(tool string) bool { return tool == "ask" }}
		defer text.Close()
		text.Observe(agenttest.Call(1, "s", "sleep", ""))
		text.Observe(agenttest.Call(1, "a", "ask", ""))
		fmt.Fprint(s, "Which colour? ") // the tool itself, on the same screen
		before := s.String()
		if want := "→ ask\nWhich colour?\n"; before != want {
			t.Fatalf("screen %q, want %q", before, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if now := s.String(); now != before {
			t.Errorf("screen %q while the tool asks, want %q", now, before)
		}
		fmt.Fprint(s, "green\n")
		text.Observe(agenttest.CallResult(1, "a", "ask", "green", false, 100))
		if now, want := s.String(), "→ ask\nWhich colour? green\n✓ ask                             0.1 s\n• main                            1.0 s\n  • sleep                         1.0 s\n"; now != want {
			t.Errorf("screen %q afterwards, want %q", now, want)
		}
	})
}

func TestLiveIsNotRedrawnWhileItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 40, 10)
		text := &Text{W: s, Live: true, Size: s.size}
		defer text.Close()
		text.Observe(agenttest.Call(1, "s", "sleep", ""))
		release := text.Hold()
		fmt.Fprint(s, "Which colour? ")
		time.Sleep(time.Second)
		synctest.Wait()
		if now, want := s.String(), "Which colour?\n"; now != want {
			t.Errorf("screen %q while it is held, want %q", now, want)
		}
		fmt.Fprint(s, "green\n")
		release()
		release()
		if now, want := s.String(), "Which colour? green\n• main                            1.0 s\n  • sleep                         1.0 s\n"; now != want {
			t.Errorf("screen %q afterwards, want %q", now, want)
		}
	})
}

func TestLiveWritesNothingWhenNothingChanged(t *testing.T) {
	s := newScreen(t, 40, 10)
	text := &Text{W: s, Live: true, Size: s.size, Now: func() time.Time { return time.Unix(0, 0) }}
	defer text.Close()
	text.Observe(agenttest.Call(1, "k", "sleep", ""))
	writes := s.count()
	text.mu.Lock()
	text.redraw("")
	text.mu.Unlock()
	if n := s.count(); n != writes {
		t.Errorf("%d writes for the same lines", n-writes)
	}
}

func TestLiveFitsTheScreen(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"forty calls on six rows", `
• main                0.0 s
  • t1 host=漢漢漢…   0.0 s
  • t2 host=漢漢漢…   0.0 s
  and 38 more
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScreen(t, 28, 6)
			text := &Text{W: s, Live: true, Size: func() (int, int) { return 28, 6 }, Now: func() time.Time { return time.Unix(9, 0) }}
			for i := range 40 {
				text.Observe(agenttest.Call(i+1, fmt.Sprint("k", i), fmt.Sprint("t", i+1), `{"host":"`+strings.Repeat("漢", 50)+`"}`))
			}
			if got := "\n" + s.String(); got != test.want {
				t.Errorf("screen:%s\nwant:%s", got, test.want)
			}
			for i := range 40 {
				text.Observe(agenttest.CallResult(i+1, fmt.Sprint("k", i), fmt.Sprint("t", i+1), "", false, 1000))
			}
			text.Close()
			if got := strings.Count(s.String(), "✓ t"); got != 40 {
				t.Errorf("%d outcomes on the screen, want 40:\n%s", got, s)
			}
		})
	}
}

// TestLiveLeavesNothingBehindInASmallerWindow makes the window narrower, so that
// the terminal wraps the drawn lines, and lower.
func TestLiveLeavesNothingBehindInASmallerWindow(t *testing.T) {
	columns, rows := 60, 18
	s := newScreen(t, columns, rows)
	now := time.Unix(9, 0)
	text := &Text{W: s, Live: true, Color: true, Size: func() (int, int) { return columns, rows }, Now: func() time.Time { return now }}
	defer text.Close()
	redraw := func() {
		text.mu.Lock()
		defer text.mu.Unlock()
		now = now.Add(time.Second)
		text.redraw("")
	}
	fmt.Fprint(s, "$ agents run\n")
	for _, tool := range []string{"a", "b", "c"} {
		text.Observe(agenttest.Call(1, tool, strings.Repeat(tool, 50), ""))
	}
	columns, rows = 25, 18
	s.resize(columns, rows)
	redraw()
	want := "$ agents run\n• main             1.0 s\n  • aaaaaaaaaaaa…  1.0 s\n  • bbbbbbbbbbbb…  1.0 s\n  • cccccccccccc…  1.0 s\n"
	if got := s.String(); got != want {
		t.Errorf("the window became narrower:\n%swant:\n%s", got, want)
	}
	rows = 2
	s.resize(columns, rows)
	redraw()
	if got, want := s.String(), "$ agents run\n• main             1.0 s\n  • aaaaaaaaaaaa…  1.0 s\n  • bbbbbbbbbbbb…  1.0 s\n  and 4 more\n"; got != want {
		t.Errorf("the window became lower:\n%swant:\n%s", got, want)
	}
	rows = 1
	redraw()
	if text.drawn != nil {
		t.Errorf("on one row it draws %q", text.drawn)
	}
}

func TestLiveErasesWhatTheTerminalEchoes(t *testing.T) {
	s := newScreen(t, 30, 12)
	text := &Text{W: s, Live: true, Size: func() (int, int) { return 30, 12 }}
	text.Observe(agenttest.Call(1, "a", "b", ""))
	fmt.Fprint(s, "^C") // without a newline, below the drawn lines
	text.Close()
	fmt.Fprint(s, "error: run agent a: interrupted\n")
	if got, want := s.String(), "error: run agent a: interrupte\nd\n"; got != want {
		t.Errorf("after Ctrl-C:\n%swant:\n%s", got, want)
	}
}

func TestLiveShowsEndedCallsOfASubAgentAsLongAsTheyFit(t *testing.T) {
	s := newScreen(t, 40, 24)
	text := &Text{W: s, Live: true, Size: func() (int, int) { return 40, 6 }, Now: func() time.Time { return time.Unix(9, 0) }}
	defer text.Close()
	sub := func(e agent.Event) agent.Event { e.Session, e.Agent, e.Parent, e.Depth = "S2", "sub", "p", 1; return e }
	text.Observe(agenttest.Call(1, "p", "ask", ""))
	for i := range 60 {
		key, tool := fmt.Sprint("c", i), fmt.Sprint("t", i)
		text.Observe(sub(agenttest.Call(1, key, tool, "")))
		text.Observe(sub(agenttest.CallResult(1, key, tool, "", i == 57, 100)))
	}
	text.Observe(sub(agenttest.Call(1, "run", "runs", "")))
	want := "• main                            0.0 s\n  • sub                           0.0 s\n    • runs                        0.0 s\n    ✓ t59                         0.1 s\n"
	if got := s.String(); got != want {
		t.Errorf("screen:\n%swant:\n%s", got, want)
	}
	text.Observe(agenttest.CallResult(1, "p", "ask", "error: no\nanswer", true, 6000))
	got := strings.Split(strings.TrimSpace(s.String()), "\n")
	if len(got) != 14 || got[0] != "✗ sub  no                         0.0 s" || got[1] != "    50 calls before" {
		t.Errorf("screen:\n%s", s)
	}
}

// TestAnInterruptedRunShowsWhatEndedBefore: the calls that an interruption ends
// are not shown one by one.
func TestAnInterruptedRunShowsWhatEndedBefore(t *testing.T) {
	sub := func(e agent.Event) agent.Event { e.Session, e.Parent, e.Depth, e.Agent = "S2", "p", 1, "sub"; return e }
	s := newScreen(t, 60, 20)
	var plain bytes.Buffer
	stopped := false
	interrupted := func() bool { return stopped }
	live := &Text{W: s, Live: true, Size: s.size, Interrupted: interrupted, Now: func() time.Time { return time.Unix(9, 0) }}
	defer live.Close()
	watch := observe.Tee(live.Observe, (&Text{W: &plain, Interrupted: interrupted}).Observe)
	watch(agenttest.Call(1, "r", "get", ""))
	watch(agenttest.Call(2, "p", "ask", ""))
	watch(agenttest.Call(3, "q", "ask_other", ""))
	watch(sub(agenttest.Call(1, "c1", "done", "")))
	watch(sub(agenttest.Call(2, "c2", "slow", "")))
	watch(sub(agenttest.CallResult(1, "c1", "done", "", false, 100)))
	stopped = true
	watch(sub(agenttest.CallResult(2, "c2", "slow", "error: interrupted; the tool was ended", true, 100)))
	watch(agenttest.CallResult(2, "p", "ask", "error: interrupted", true, 100))
	watch(agenttest.CallResult(1, "r", "get", "error: interrupted; the tool was ended", true, 100))
	watch(agenttest.CallResult(3, "q", "ask_other", "error: interrupted", true, 100))
	if got, want := s.String(), "✗ sub                                                 0.0 s\n  ✓ done                                              0.1 s\n• main                                     calling    0.0 s\n"; got != want {
		t.Errorf("screen:\n%swant:\n%s", got, want)
	}
	if got, want := plain.String(), "→ get\n→ ask\n→ ask_other\n  → sub: done\n  → sub: slow\n  ✓ sub: done  0.1 s\n"; got != want {
		t.Errorf("plain:\n%swant:\n%s", got, want)
	}
}

func TestLiveMakesRoomForStdout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 40, 10)
		text := &Text{W: s, Live: true, Size: s.size}
		out := text.Stdout(s)
		step := func(want string) {
			t.Helper()
			if got := s.String(); got != want {
				t.Errorf("screen:\n%s\nwant:\n%s", got, want)
			}
		}
		text.Observe(agent.Event{Kind: agent.EventRequest, Session: "S1", Agent: "main", Model: "gpt-5"})
		step("• main                            0.0 s\n")
		io.WriteString(out, "zero\n")
		step("zero\n\n• main                            0.0 s\n")
		io.WriteString(out, "\x1b[A\r")
		text.Observe(agenttest.Call(1, "k", "sleep", ""))
		io.WriteString(out, "one\ntw")
		step("zero\n\none\ntw\n") // no room below an unfinished line
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		io.WriteString(out, "o\x1b")
		io.WriteString(out, "[31m\n")
		rows := "• main                            0.3 s\n  • sleep                         0.3 s\n"
		step("zero\n\none\ntwo\n\n" + rows)
		io.WriteString(out, "three")
		text.Observe(agent.Event{Kind: agent.EventWarning, Text: "beware"})
		step("zero\n\none\ntwo\nthree\n\n! beware\n" + rows)
		io.WriteString(out, "end \xe2\x82")
		text.Close()
		step("zero\n\none\ntwo\nthree\n\n! beware\n\nend \uFFFD\uFFFD\n")
		io.WriteString(out, "\x1b[2Jmore")
		step("zero\n\none\ntwo\nthree\n\n! beware\n\nend \uFFFD\uFFFDmore\n")
	})
}

func TestStdoutReturnsTheErrorOfItsWriter(t *testing.T) {
	var progress bytes.Buffer
	text := &Text{W: &progress}
	defer text.Close()
	stream := &Stream{W: text.Stdout(agenttest.BrokenPipe{})}
	stream.Observe(agent.Event{Kind: agent.EventText, Text: "x"})
	if stream.Err() != io.ErrClosedPipe {
		t.Errorf("Err() = %v, want %v", stream.Err(), io.ErrClosedPipe)
	}
}

func TestStdoutCleansWithoutProgress(t *testing.T) {
	for _, text := range []*Text{{W: agenttest.BrokenPipe{}}, {W: agenttest.BrokenPipe{}, Quiet: true}, {W: agenttest.BrokenPipe{}, Live: true, Quiet: true}} {
		var out bytes.Buffer
		w := text.Stdout(&out)
		text.Observe(agenttest.Call(1, "k", "t", ""))
		io.WriteString(w, "a\x1b[31mb")
		text.Close()
		if out.String() != "ab" {
			t.Errorf("%+v: stdout %q, want %q", text, out.String(), "ab")
		}
	}
}

func TestLiveSurvivesCharactersThatAreWiderThanTheySeem(t *testing.T) {
	s := newScreen(t, 20, 10)
	s.wide = '±' // two cells in some terminals
	text := &Text{W: s, Live: true, Size: func() (int, int) { return 20, 10 }, Now: func() time.Time { return time.Unix(9, 0) }}
	text.Observe(agenttest.Call(1, "a", strings.Repeat("±", 30), ""))
	text.Observe(agenttest.Call(2, "b", "second", ""))
	if got := strings.Count(s.String(), "\n"); got != 3 {
		t.Errorf("%d rows, want 3:\n%s", got, s)
	}
	text.Close()
	if got := s.String(); got != "\n" {
		t.Errorf("screen after Close %q, want nothing", got)
	}
}

func TestElapsed(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0.0 s"}, {0, "0.0 s"}, {990 * time.Millisecond, "0.9 s"}, {9999 * time.Millisecond, "9.9 s"},
		{10 * time.Second, "10 s"}, {59999 * time.Millisecond, "59 s"}, {time.Minute, "1 m 00 s"},
		{time.Hour - 1, "59 m 59 s"}, {25*time.Hour + 61*time.Second, "25 h 01 m"},
	} {
		if got := termtext.Elapsed(test.d); got != test.want {
			t.Errorf("Elapsed(%v) = %q, want %q", test.d, got, test.want)
		}
	}
}

// kinds are all kinds of events.
var kinds = []agent.EventKind{agent.EventSession, agent.EventMessage, agent.EventAnswer, agent.EventCallStarted,
	agent.EventRequest, agent.EventText, agent.EventReasoning, agent.EventRetry, agent.EventProgress,
	agent.EventWarning, agent.EventResume, agent.EventFailure, agent.EventVerdict, agent.EventCallEnded, agent.EventEnd}

// TestNoControlSequenceReachesATerminal puts control characters into every text
// of every event. The screen fails on a sequence that is not ours.
func TestNoControlSequenceReachesATerminal(t *testing.T) {
	hostile := "\x1b]0;owned\a\x1b[2J\x1b[8m\u009b2J\r\n\x00\u202e\x7f\x9b"
	for _, depth := range []int{0, 1} {
		for _, failed := range []bool{false, true} {
			s := newScreen(t, 60, 20)
			var plain, log, lines bytes.Buffer
			live := &Text{W: s, Live: true, Size: s.size, Color: true}
			stream := &Stream{W: live.Stdout(s)}
			watch := observe.Tee(live.Observe, stream.Observe, (&Text{W: &plain}).Observe,
				(&LogText{W: &log}).Observe, (&observe.JSONLines{W: &lines, Pieces: true}).Observe)
			for _, kind := range kinds {
				e := agenttest.Event(hostile)
				e.Kind, e.Depth, e.Result.Failed = kind, depth, failed
				e.Finish, e.Status = agent.Finish(hostile), agent.Status(hostile)
				before := plain.Len()
				watch(e)
				if n := strings.Count(plain.String()[before:], "\n"); n > 1 {
					t.Errorf("event %s is %d plain lines", kind, n)
				}
			}
			live.Close()
			for name, out := range map[string]string{"plain": plain.String(), "log": log.String(), "json": lines.String()} {
				if i := strings.IndexFunc(out, func(r rune) bool { return termtext.Hidden(r) && r != '\n' }); i >= 0 {
					t.Errorf("%s: control character in %q", name, out[max(0, i-20):i+4])
				}
			}
			if got, want := strings.Count(log.String(), "\n"), 11; got != want {
				t.Errorf("the log has %d lines, want %d:\n%s", got, want, log.String())
			}
		}
	}
}

func TestLiveShowsThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 50, 10)
		text := &Text{W: s, Live: true, Size: func() (int, int) { return 50, 8 }, Now: func() time.Time { return time.Unix(9, 0) }}
		defer text.Close()
		change := func(task agent.Task) {
			e := agenttest.CallResult(1, "p"+task.ID, "add_task", "added", false, 1)
			e.Result.Task = &task
			text.Observe(e)
		}
		text.Observe(agenttest.Call(1, "k", "sleep", ""))
		change(agent.Task{ID: "tea", Title: "Make tea\x1b[2J", State: agent.TaskDoing})
		change(agent.Task{ID: "water", Title: "Boil water", Parent: "tea", State: agent.TaskDone, Note: "hot"})
		change(agent.Task{ID: "cups", Title: "Find cups"})
		change(agent.Task{ID: "milk", Title: "Buy milk", State: agent.TaskDropped})
		calling := "• main                                      0.0 s\n  • sleep                                   0.0 s\n"
		want := calling + "  → Make tea\\x1b[2J\n    ✓ Boil water  hot\n  ○ Find cups\n  - Buy milk\n"
		if got := s.String(); !strings.HasSuffix(got, want) {
			t.Errorf("screen:\n%s\nwant at its end:\n%s", got, want)
		}
		change(agent.Task{ID: "cake", Title: "Bake"})
		want = calling + "    1 of 4 tasks are done  Make tea\\x1b[2J\n"
		if got := s.String(); !strings.HasSuffix(got, want) {
			t.Errorf("screen:\n%s\nwant at its end:\n%s", got, want)
		}
		text.Observe(agent.Event{Kind: agent.EventEnd, Session: "S1"})
		if got := s.String(); strings.Contains(got, "tasks") {
			t.Errorf("after the end:\n%s", got)
		}
	})
}

// A panic while the elapsed times are redrawn, in a goroutine of its own, is reported and ends
// that; nothing waits for it.
func TestAPanicEndsTheRedrawing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 40, 10)
		var fail atomic.Bool
		said := ""
		text := &Text{W: s, Live: true, Panicked: func(text string) { said += text }, Size: func() (int, int) {
			if fail.Load() {
				panic("the size")
			}
			return s.size()
		}}
		text.Observe(agenttest.Call(1, "k", "sleep", ""))
		fail.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		fail.Store(false)
		text.Close()
		if strings.Count(said, "internal error: the size\n") != 1 {
			t.Errorf("reported %q", said)
		}
	})
}
