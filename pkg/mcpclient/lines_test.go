package mcpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// filter is what comes through a filter with a small limit, and what is logged.
func filter(in string) (out, log string) {
	var lines []string
	f := newLineFilter(iotest.OneByteReader(strings.NewReader(in)), 60, func(line string) { lines = append(lines, line) })
	b, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	select {
	case <-f.end:
	default:
		panic("the end was not told")
	}
	return string(b), strings.Join(lines, "|")
}

// TestEndIsToldBehindTheLastLine: whoever learns of the end gives up the calls
// that have no answer yet.
func TestEndIsToldBehindTheLastLine(t *testing.T) {
	const last = `{"jsonrpc":"2.0"}`
	f := newLineFilter(strings.NewReader(last), 60, func(string) {})
	told := func() bool {
		select {
		case <-f.end:
			return true
		default:
			return false
		}
	}
	buf := make([]byte, 100)
	if n, err := f.Read(buf); string(buf[:n]) != last+"\n" || err != nil || told() {
		t.Errorf("Read = %q, %v, the end told: %v; want %s before the end", buf[:n], err, told(), last)
	}
	for range 2 {
		if n, err := f.Read(buf); n != 0 || err != io.EOF || !told() {
			t.Errorf("Read = %d, %v, the end told: %v; want %v", n, err, told(), io.EOF)
		}
	}
}

func TestLineFilter(t *testing.T) {
	long := strings.Repeat("x", 100)
	refused := func(id string) string {
		return `{"error":{"code":-32099,"message":"the server's message is longer than 60 bytes"},"id":` + id + `,"jsonrpc":"2.0"}` + "\n"
	}
	unusable := func(id string) string {
		return strings.Replace(refused(id), "longer than 60 bytes", "no JSON, or nested too deep", 1)
	}
	for _, c := range []struct{ name, in, out, log string }{
		{"message", "{\"jsonrpc\":\"2.0\"}\n", "{\"jsonrpc\":\"2.0\"}\n", ""},
		{"no newline at the end", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\"}\n", ""},
		{"spaces and carriage return", "  {\"jsonrpc\":\"2.0\"}\r\n", "  {\"jsonrpc\":\"2.0\"}\r\n", ""},
		{"empty lines", "\n \r\n", "", ""},
		{"log lines", "starting\n{\"level\":1}\n[1]\n", "", `stdout: starting|stdout: {"level":1}|stdout: [1]`},
		{"not UTF-8", "\xff\xfe\n", "", "stdout: \uFFFD"},
		{"too long, id first", `{"jsonrpc":"2.0","id":7,"result":"` + long + "\"}\n", refused("7"), ""},
		{"too long, id last", `{"result":{"id":1,"a":[{"id":2}],"s":"\",\"id\":3"},"jsonrpc":"2.0","x":"` + long + `", "id" : "a\"b" }` + "\n{\"jsonrpc\":1}\n",
			refused(`"a\"b"`) + "{\"jsonrpc\":1}\n", ""},
		{"too long, null id", `{"jsonrpc":"2.0","id":null,"result":"` + long + "\"}\n", "", "stdout: the server's message is longer than 60 bytes"},
		{"too long, a notification", `{"jsonrpc":"2.0","method":"` + long + "\"}\n", "", "stdout: the server's message is longer than 60 bytes"},
		{"too long, no JSON", long + "\n", "", "stdout: the server's message is longer than 60 bytes"},
		{"too long, at the end", `{"id":7,"result":"` + long, refused("7"), ""},
		{"no JSON", `{"jsonrpc":"2.0","id":7,"result":[}` + "\n", unusable("7"), `stdout: {"jsonrpc":"2.0","id":7,"result":[}`},
		{"a batch", "\uFEFF[{\"jsonrpc\":\"2.0\"},{\"level\":1},{\"jsonrpc\":\"2.0\",\"id\":7}]\n",
			"{\"jsonrpc\":\"2.0\"}\n" + strings.Replace(refused("7"), "message is longer than 60 bytes", "answer has neither a result nor an error", 1),
			`stdout: {"level":1}|stdout: {"jsonrpc":"2.0","id":7}`},
		{"cut, no id", `{"jsonrpc":"2.0","result":[` + "\n", "", `stdout: {"jsonrpc":"2.0","result":[|stdout: the server's message is no JSON, or nested too deep`},
	} {
		out, log := filter(c.in)
		if out != c.out || log != c.log {
			t.Errorf("%s:\n%s\nlog %q; want\n%s\nlog %q", c.name, out, log, c.out, c.log)
		}
	}
}

// FuzzLineFilter: whatever a program prints, only lines that look like messages
// come through, each ended, and the id of a message that is too long is the one
// that a decoder finds.
func FuzzLineFilter(f *testing.F) {
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1}\nlog\n"))
	f.Add([]byte(`{"a":{"id":1},"id":"x","jsonrpc":"2.0","z":"` + strings.Repeat("y", 80) + "\"}\n"))
	f.Add([]byte("}]{\"id\":\n\"\\"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, _ := filter(string(in))
		for line := range strings.Lines(out) {
			if !strings.HasSuffix(line, "\n") || !isMessage([]byte(line)) {
				t.Errorf("came through: %q", line)
			}
		}
		line := bytes.SplitN(in, []byte("\n"), 2)[0]
		var m map[string]json.RawMessage
		if json.Unmarshal(line, &m) != nil || bytes.Count(line, []byte(`"id"`)) != 1 || bytes.ContainsRune(line, '\\') {
			return // another spelling of the key is not looked for
		}
		var s idScanner
		s.write(line)
		want := m["id"]
		if len(want) > maxID || len(want) > 0 && (want[0] == '{' || want[0] == '[') || string(want) == "null" {
			want = nil
		}
		if got := s.id(); string(got) != string(want) {
			t.Errorf("the id of %s is %s, want %s", line, got, want)
		}
	})
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
