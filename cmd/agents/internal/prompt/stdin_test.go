package prompt

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
)

// notes are what is written, and when.
type notes chan struct {
	text string
	at   time.Time
}

func (n notes) Write(p []byte) (int, error) {
	n <- struct {
		text string
		at   time.Time
	}{string(p), time.Now()}
	return len(p), nil
}

// A prompt of words does not wait for ever for standard input that is open and silent.
func TestSilentInput(t *testing.T) {
	for name, tt := range map[string]struct {
		controlling string
		noted       time.Duration
	}{
		"at a terminal":      {"/dev/pts/1", time.Second},
		"without a terminal": {"", time.Second / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, open := io.Pipe()
				defer open.Close()
				began := time.Now()
				said := make(notes, 1)
				p := &program.Env{In: in, Err: said, Controlling: tt.controlling, Getenv: func(string) string { return "" }}
				_, err := Script{{kind: "words", text: "hello"}}.Render(t.Context(), p)
				if n := <-said; n.text != "note: reading standard input\n" || n.at.Sub(began) != tt.noted {
					t.Errorf("after %s stderr has %q, want a note after %s", n.at.Sub(began), n.text, tt.noted)
				}
				e, ok := errors.AsType[*failure.Error](err)
				if !ok || time.Since(began) != maxSilence || !strings.Contains(e.Hint, "</dev/null") || !strings.Contains(e.Hint, "--prompt") {
					t.Errorf("after %s: %v, hint %+v", time.Since(began), err, e)
				}
			})
		})
	}
}

// What has begun to come is awaited, however long that takes.
func TestSlowInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		p := &program.Env{In: in, Err: io.Discard, Getenv: func(string) string { return "" }}
		go func() {
			time.Sleep(maxSilence / 2)
			io.WriteString(out, "slow ")
			time.Sleep(2 * maxSilence)
			io.WriteString(out, "words\n")
			out.Close()
		}()
		text, err := Script{{kind: "words", text: "hello"}}.Render(t.Context(), p)
		if want := "hello\n\n<stdin>\nslow words\n</stdin>\n"; err != nil || text != want {
			t.Errorf("Render = %q, %v, want %q", text, err, want)
		}
	})
}

func TestJoinPairs(t *testing.T) {
	for in, want := range map[string]string{
		"run --session-as-context l ID -p x": "run --session-as-context=l:ID -p x",
		"run --session-as-context=l:ID":      "run --session-as-context=l:ID",
		"run --session-as-context l":         "run --session-as-context l",
		"run --session-as-context huge ID":   "run --session-as-context huge ID",
		"run -- --session-as-context l ID":   "run -- --session-as-context l ID",
	} {
		if got := strings.Join(JoinPairs(strings.Fields(in)), " "); got != want {
			t.Errorf("joinPairs(%q) = %q, want %q", in, got, want)
		}
	}
}
