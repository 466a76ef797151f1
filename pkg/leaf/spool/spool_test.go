package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// feed writes data in pieces of n bytes.
func feed(t *testing.T, o *Output, data []byte, n int) {
	t.Helper()
	for len(data) > 0 {
		k := min(n, len(data))
		if wrote, err := o.Write(data[:k]); wrote != k || err != nil {
			t.Fatalf("Write = %d, %v, want %d", wrote, err, k)
		}
		data = data[k:]
	}
}

// numbered is n bytes in which every place is recognizable.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.Bytes()[:n]
}

func TestOutputUpToTheLimitIsWhole(t *testing.T) {
	for _, n := range []int{0, 1, MaxText - 1, MaxText} {
		for _, piece := range []int{1 << 20, 4096, 7} {
			o := &Output{Dir: t.TempDir(), Pattern: "x"}
			feed(t, o, numbered(n), piece)
			if got := o.Render(MaxText, "stdout"); got != string(numbered(n)) {
				t.Errorf("%d bytes in pieces of %d: got %d bytes", n, piece, len(got))
			}
			if files, _ := os.ReadDir(o.Dir); len(files) != 0 {
				t.Errorf("%d bytes: a file was written", n)
			}
		}
	}
}

var noticePattern = regexp.MustCompile(`\n\n\[(\d+) of (\d+) bytes of stdout are left out here; the whole is in the file (.+)\]\n\n`)

func TestLongOutputIsHeadNoticeTail(t *testing.T) {
	for _, n := range []int{MaxText + 1, MaxText + MaxText/4, MaxText * 3 / 2, MaxText*3/2 + 1, 234_567} {
		for _, piece := range []int{1 << 20, 32 << 10, 997} {
			t.Run(fmt.Sprint(n, "/", piece), func(t *testing.T) {
				o := &Output{Dir: t.TempDir() + "/spool", Pattern: "key-*.stdout"}
				data := numbered(n)
				feed(t, o, data, piece)
				got := o.Render(MaxText, "stdout")
				o.Close()
				if len(got) > MaxText || len(got) < MaxText-10 {
					t.Errorf("%d bytes of text, want just under %d", len(got), MaxText)
				}
				m := noticePattern.FindStringSubmatchIndex(got)
				if m == nil {
					t.Fatalf("no notice in %.200q", got[MaxText/2-300:])
				}
				head, tail := got[:m[0]], got[m[1]:]
				if !bytes.HasPrefix(data, []byte(head)) || !bytes.HasSuffix(data, []byte(tail)) || len(head)-len(tail) > 10 {
					t.Errorf("head of %d and tail of %d bytes are not those of the data", len(head), len(tail))
				}
				if cut, total := got[m[2]:m[3]], got[m[4]:m[5]]; cut != fmt.Sprint(n-len(head)-len(tail)) || total != fmt.Sprint(n) {
					t.Errorf("the notice says %s of %s bytes, want %d of %d", cut, total, n-len(head)-len(tail), n)
				}
				path := got[m[6]:m[7]]
				if whole, err := os.ReadFile(path); err != nil || !bytes.Equal(whole, data) {
					t.Errorf("the file %s has %d bytes (%v), want the whole %d", path, len(whole), err, n)
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
				}
				if len(o.head) > MaxText || len(o.tail) > MaxText/2 {
					t.Errorf("%d and %d bytes in memory", len(o.head), len(o.tail))
				}
			})
		}
	}
}

func TestCutsFallBetweenCharacters(t *testing.T) {
	for shift := range 5 {
		o := &Output{Dir: t.TempDir(), Pattern: "x"}
		feed(t, o, []byte(strings.Repeat("x", shift)+strings.Repeat("😀", 30_000)), 1001)
		got := o.Render(MaxText, "stdout")
		o.Close()
		if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") || len(got) > MaxText {
			t.Errorf("shift %d: %d bytes, valid %v, replaced %d", shift, len(got), utf8.ValidString(got), strings.Count(got, "\uFFFD"))
		}
		if o.IsBinary() {
			t.Errorf("shift %d: text with a split character passes for binary", shift)
		}
	}
}

func TestOddBytesAreReplacedWithinTheLimit(t *testing.T) {
	line := []byte("caf\xe9 au lait, tr\xe8s bon et pas cher du tout, monsieur\n")
	o := &Output{Dir: t.TempDir(), Pattern: "x"}
	feed(t, o, bytes.Repeat(line, MaxText/len(line)), 1000) // fits, but not with U+FFFD
	if o.IsBinary() {
		t.Fatal("Latin-1 text passes for binary")
	}
	got := o.Render(MaxText, "stdout")
	o.Close()
	if len(got) > MaxText || !utf8.ValidString(got) || !strings.HasPrefix(got, "caf\uFFFD au lait, tr\uFFFDs bon") || noticePattern.FindString(got) == "" {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
}

func TestSpoolHasALimit(t *testing.T) {
	o := &Output{Dir: t.TempDir(), Pattern: "x", MaxFile: 60_000}
	feed(t, o, numbered(200_000), 1000)
	got := o.Render(MaxText, "stdout")
	o.Close()
	want := "200000 bytes of stdout are left out here; the first 60000 bytes are in the file " + o.file.Name() + ": a file can have 60000]"
	if !strings.Contains(got, want) {
		t.Errorf("no %q in the text", want)
	}
	if info, err := os.Stat(o.file.Name()); err != nil || info.Size() != 60_000 {
		t.Errorf("the file has %d bytes, %v, want 60000", info.Size(), err)
	}
}

func TestOutputWithoutAPlaceForTheWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Output{Dir: file, Pattern: "x"}
	feed(t, o, numbered(100_000), 1000)
	got := o.Render(MaxText, "stdout")
	if want := "left out here; the whole could not be kept in a file: mkdir " + file + ": not a directory]"; !strings.Contains(got, want) {
		t.Errorf("no %q in the text", want)
	}
	if !strings.HasSuffix(got, string(numbered(100_000)[90_000:])) {
		t.Error("the tail is missing")
	}
}

func TestUnmentionedFileIsRemoved(t *testing.T) {
	o := &Output{Dir: t.TempDir(), Pattern: "x"}
	feed(t, o, numbered(100_000), 1000)
	o.Close()
	if files, _ := os.ReadDir(o.Dir); len(files) != 0 {
		t.Errorf("%d files remain", len(files))
	}
}

func TestIsBinary(t *testing.T) {
	tests := []struct {
		name, data string
		want       bool
	}{
		{"nothing", "", false},
		{"text", "hello\n", false},
		{"UTF-8 with NUL", "a\x00ä\x00", false},
		{"one odd byte", strings.Repeat("x", 100) + "\xff", false},
		{"many odd bytes", "\xff\xfe\xfd abc", true},
		{"an odd byte and NUL", strings.Repeat("x", 100) + "\xff\x00", true},
		{"long text", strings.Repeat("ä", 100_000), false},
		{"long data", strings.Repeat("\x89PNG\xff\xff", 100_000), true},
	}
	for _, tt := range tests {
		o := &Output{MemoryOnly: true}
		feed(t, o, []byte(tt.data), 1000)
		if got := o.IsBinary(); got != tt.want {
			t.Errorf("%s: isBinary = %v, want %v", tt.name, got, tt.want)
		}
	}
}
