package mcpclient

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestLinesOfAProgram: what is no message is logged, and what cannot be used answers
// the request of its id.
func TestLinesOfAProgram(t *testing.T) {
	long := strings.Repeat("x", 100)
	const unusable = "the server's message cannot be used: "
	for _, c := range []struct{ name, in, answer, log string }{
		{"answer", `{"jsonrpc":"2.0","id":7,"result":1}` + "\n", "1", ""},
		{"no newline at the end", `{"jsonrpc":"2.0","id":7,"result":1}`, "1", ""},
		{"spaces and carriage return", `  {"jsonrpc":"2.0","id":7,"result":1}` + "\r\n", "1", ""},
		{"empty lines", "\n \r\n", "", ""},
		{"log lines", "starting\n{\"level\":1}\n[1]\n", "", `stdout: starting|stdout: {"level":1}|stdout: [1]`},
		{"not UTF-8", "\xff\xfe\n", "", "stdout: \uFFFD"},
		{"another case", `{"jsonrpc":"2.0","id":7,"Result":1,"Error":{"code":1,"message":"x"}}`, unusable + "method: it must be a string; an answer has a result or an error (-32099)",
			`stdout: {"jsonrpc":"2.0","id":7,"Result":1,"Error":{"code":1,"message":"x"}}`},
		{"too long, id first", `{"jsonrpc":"2.0","id":7,"result":"` + long + "\"}\n", unusable + "it is longer than 90 bytes (-32099)", ""},
		{"too long, id last", `{"result":{"id":1,"a":[{"id":2}],"s":"\",\"id\":3"},"jsonrpc":"2.0","x":"` + long + `", "id" : 7 }` + "\n",
			unusable + "it is longer than 90 bytes (-32099)", ""},
		{"too long, a notification", `{"jsonrpc":"2.0","method":"` + long + "\"}\n", "", "stdout: " + unusable + "it is longer than 90 bytes (-32099)"},
		{"too long, no JSON", long + "\n", "", "stdout: " + unusable + "it is longer than 90 bytes (-32099)"},
		{"no JSON", `{"jsonrpc":"2.0","id":7,"result":[}` + "\n", unusable + "parse error: invalid character '}' looking for beginning of value (-32099)", `stdout: {"jsonrpc":"2.0","id":7,"result":[}`},
		{"a batch", "\uFEFF[{\"level\":1},{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}]\n", "1", `stdout: {"level":1}`},
		{"cut, no id", `{"jsonrpc":"2.0","result":[` + "\n", "", `stdout: {"jsonrpc":"2.0","result":[|stdout: ` + unusable + "parse error: unexpected end of JSON input (-32099)"},
	} {
		var lines []string
		opts := Options{maxLine: 90, Log: func(line string) { lines = append(lines, line) }}
		answers := make(chan answer, 1)
		s := &stdio{conn: newConn(&Server{}, &opts), read: make(chan struct{})}
		s.conn.pending["n7"] = &request{key: "n7", answers: answers}
		s.readAll(iotest.OneByteReader(strings.NewReader(c.in)))
		<-s.conn.lost
		var got string
		select {
		case a := <-answers:
			if got = string(a.result); a.err != nil {
				got = a.err.Error()
			}
		default:
		}
		if log := strings.Join(lines, "|"); got != c.answer || log != c.log {
			t.Errorf("%s:\n%s\nlog %q; want\n%s\nlog %q", c.name, got, log, c.answer, c.log)
		}
	}
}

func TestLastLines(t *testing.T) {
	var logged []string
	l := &lastLines{log: func(line string) { logged = append(logged, line) }}
	if l.String() != "" {
		t.Errorf("of nothing: %q", l)
	}
	for i := range maxLastLines + 2 {
		fmt.Fprintf(l, "line %d\r\n\n", i)
	}
	fmt.Fprint(l, strings.Repeat("ü", 600))
	fmt.Fprint(l, strings.Repeat("ü", 600))
	l.flush()
	l.flush()
	want := "; the last lines of its stderr:\n"
	for i := 3; i < maxLastLines+2; i++ {
		want += fmt.Sprintf("  line %d\n", i)
	}
	want += "  " + strings.Repeat("ü", 500) + "…"
	if diff := cmp.Diff(want, l.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(logged) != maxLastLines+3 {
		t.Errorf("%d lines were logged, want %d", len(logged), maxLastLines+3)
	}
}

// TestQueueDoesNotBlock writes to a pipe that nobody reads.
func TestQueueDoesNotBlock(t *testing.T) {
	r, w := io.Pipe()
	q := newQueue(w, 1<<16)
	big := make([]byte, 1<<12)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, err = q.Write(big)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "the server does not read what it is sent; ") {
		t.Errorf("after %d writes: %v", n, err)
	}
	r.Close()
	q.Close()
	<-q.done
	if _, err := q.Write(big); err == nil {
		t.Error("a closed queue takes more")
	}
}

func TestQueueWritesEverythingBeforeItCloses(t *testing.T) {
	r, w := io.Pipe()
	q := newQueue(w, 1<<16)
	for i := range 100 {
		fmt.Fprintf(q, "%d ", i)
	}
	q.Close()
	b, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(b), "0 1 2 ") || !strings.HasSuffix(string(b), " 98 99 ") {
		t.Errorf("read %q, %v", b, err)
	}
	<-q.done
}
