package exectool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/redact"
)

// feed writes data in pieces of n bytes.
func feed(t *testing.T, o *output, data []byte, n int) {
	t.Helper()
	for len(data) > 0 {
		k := min(n, len(data))
		if wrote, err := o.Write(data[:k]); wrote != k || err != nil {
			t.Fatalf("Write = %d, %v, want %d", wrote, err, k)
		}
		data = data[k:]
	}
}

// numbered is n bytes in which every place is recognisable.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.Bytes()[:n]
}

func TestOutputUpToTheLimitIsWhole(t *testing.T) {
	for _, n := range []int{0, 1, MaxOutput - 1, MaxOutput} {
		for _, piece := range []int{1 << 20, 4096, 7} {
			o := &output{dir: t.TempDir(), pattern: "x"}
			feed(t, o, numbered(n), piece)
			if got := o.render(MaxOutput, "stdout"); got != string(numbered(n)) {
				t.Errorf("%d bytes in pieces of %d: got %d bytes", n, piece, len(got))
			}
			if files, _ := os.ReadDir(o.dir); len(files) != 0 {
				t.Errorf("%d bytes: a file was written", n)
			}
		}
	}
}

var noticePattern = regexp.MustCompile(`\n\n\[(\d+) of (\d+) bytes of stdout are left out here; the whole is in the file (.+)\]\n\n`)

func TestLongOutputIsHeadNoticeTail(t *testing.T) {
	for _, n := range []int{MaxOutput + 1, MaxOutput + MaxOutput/4, MaxOutput * 3 / 2, MaxOutput*3/2 + 1, 234_567} {
		for _, piece := range []int{1 << 20, 32 << 10, 997} {
			t.Run(fmt.Sprint(n, "/", piece), func(t *testing.T) {
				o := &output{dir: t.TempDir() + "/spool", pattern: "key-*.stdout"}
				data := numbered(n)
				feed(t, o, data, piece)
				got := o.render(MaxOutput, "stdout")
				o.close()
				if len(got) > MaxOutput || len(got) < MaxOutput-10 {
					t.Errorf("%d bytes of text, want just under %d", len(got), MaxOutput)
				}
				m := noticePattern.FindStringSubmatchIndex(got)
				if m == nil {
					t.Fatalf("no notice in %.200q", got[MaxOutput/2-300:])
				}
				head, tail := got[:m[0]], got[m[1]:]
				if !bytes.HasPrefix(data, []byte(head)) || !bytes.HasSuffix(data, []byte(tail)) || len(head)-len(tail) > 10 {
					t.Errorf("head of %d and tail of %d bytes are not those of the data", len(head), len(tail))
				}
				if cut, total := got[m[2]:m[3]], got[m[4]:m[5]]; cut != fmt.Sprint(n-len(head)-len(tail)) || total != fmt.Sprint(n) {
					t.Errorf("the notice speaks of %s of %s bytes, want %d of %d", cut, total, n-len(head)-len(tail), n)
				}
				path := got[m[6]:m[7]]
				if whole, err := os.ReadFile(path); err != nil || !bytes.Equal(whole, data) {
					t.Errorf("the file %s has %d bytes (%v), want the whole %d", path, len(whole), err, n)
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
				}
				if len(o.head) > MaxOutput || len(o.tail) > MaxOutput/2 {
					t.Errorf("%d and %d bytes in memory", len(o.head), len(o.tail))
				}
			})
		}
	}
}

func TestCutsFallBetweenCharacters(t *testing.T) {
	for shift := range 5 {
		o := &output{dir: t.TempDir(), pattern: "x"}
		feed(t, o, []byte(strings.Repeat("x", shift)+strings.Repeat("😀", 30_000)), 1001)
		got := o.render(MaxOutput, "stdout")
		o.close()
		if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") || len(got) > MaxOutput {
			t.Errorf("shift %d: %d bytes, valid %v, replaced %d", shift, len(got), utf8.ValidString(got), strings.Count(got, "\uFFFD"))
		}
		if o.isBinary() {
			t.Errorf("shift %d: text with a split character passes for binary", shift)
		}
	}
}

func TestOddBytesAreReplacedWithinTheLimit(t *testing.T) {
	line := []byte("caf\xe9 au lait, tr\xe8s bon et pas cher du tout, monsieur\n")
	o := &output{dir: t.TempDir(), pattern: "x"}
	feed(t, o, bytes.Repeat(line, MaxOutput/len(line)), 1000) // fits, but not with U+FFFD
	if o.isBinary() {
		t.Fatal("Latin-1 text passes for binary")
	}
	got := o.render(MaxOutput, "stdout")
	o.close()
	if len(got) > MaxOutput || !utf8.ValidString(got) || !strings.HasPrefix(got, "caf\uFFFD au lait, tr\uFFFDs bon") || noticePattern.FindString(got) == "" {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
}

func TestSpoolHasALimit(t *testing.T) {
	o := &output{dir: t.TempDir(), pattern: "x", maxFile: 60_000}
	feed(t, o, numbered(200_000), 1000)
	got := o.render(MaxOutput, "stdout")
	o.close()
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
	o := &output{dir: file, pattern: "x"}
	feed(t, o, numbered(100_000), 1000)
	got := o.render(MaxOutput, "stdout")
	if want := "left out here; the whole could not be kept in a file: mkdir " + file + ": not a directory]"; !strings.Contains(got, want) {
		t.Errorf("no %q in the text", want)
	}
	if !strings.HasSuffix(got, string(numbered(100_000)[90_000:])) {
		t.Error("the tail is missing")
	}
}

func TestUnmentionedFileIsRemoved(t *testing.T) {
	o := &output{dir: t.TempDir(), pattern: "x"}
	feed(t, o, numbered(100_000), 1000)
	o.close()
	if files, _ := os.ReadDir(o.dir); len(files) != 0 {
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
		o := &output{memoryOnly: true}
		feed(t, o, []byte(tt.data), 1000)
		if got := o.isBinary(); got != tt.want {
			t.Errorf("%s: isBinary = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestDecodeBase64(t *testing.T) {
	tests := []struct {
		name, data, kind, want string // want "" means left alone
	}{
		{"image", "iVBORw0K\nGgo=\n", "image/png", "\x89PNG\r\n\x1a\n"},
		{"raw image", "\x89PNG\r\n\x1a\n", "image/png", ""},
		{"unpadded", "iVBORw0KGgo", "image/png", ""},
		{"padding inside", "iVB=Rw0K", "image/png", ""},
		{"only white space", " \n", "image/png", ""},
		{"a word", "abcd", "text/plain", ""},
		{"a long word", strings.Repeat("abcdefgh", 20), "text/csv", ""},
		{"a hash", strings.Repeat("0123456789abcdef", 4), "application/json", ""},
		{"text in base64", "YSxiCjEsMgozLDQKNSw2CjcsOAo5LDEwCjExLDEyCg==", "text/csv", "a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n"},
	}
	for _, tt := range tests {
		got, ok := decodeBase64([]byte(tt.data), tt.kind)
		if ok != (tt.want != "") || string(got) != tt.want {
			t.Errorf("%s: decodeBase64(%q) = %q, %v, want %q", tt.name, tt.data, got, ok, tt.want)
		}
	}
}

// A key is nowhere in what is kept of a call, wherever the output is cut: not as a
// whole, and no piece of it that is of use.
func TestKeysAreRedactedBeforeTheCut(t *testing.T) {
	const key = "sk-Zq8rTn2WbV5xKc7LmP0sHd4FgJ9yAe3UiO6tEw1RBk"
	pieces := map[string]bool{}
	for i := range len(key) - 7 {
		pieces[key[i:i+8]] = true
	}
	clean := func(where, text string) {
		t.Helper()
		for i := range len(text) - 7 {
			if pieces[text[i:i+8]] {
				t.Errorf("%s holds %q in %q", where, text[i:i+8], text[max(0, i-40):min(len(text), i+40)])
				return
			}
		}
	}
	const dense = `i=0; while [ $i -lt 8000 ]; do printf '%s' '` + key + `x'; printf '%s' 'x` + key + `' >&2; i=$((i+1)); done; `
	for name, test := range map[string]struct {
		body  string
		files int
	}{
		"a success":          {dense, 1},
		"a failure":          {dense + "exit 1", 2},
		"a key in two parts": {"printf '" + key[:20] + "'; sleep 0.1; printf '" + key[20:] + "'", 0},
	} {
		tool := openOne(t, Source{}, plain("leak"), test.body)
		tool.opts.Redact = redact.New([]string{key})
		res, _ := tool.Call(t.Context(), invocation("{}"))
		if !strings.Contains(res.Text(), redact.Mark) {
			t.Errorf("%s: the result is %.100q", name, res.Text())
		}
		clean(name, res.Text())
		clean(name+": progress", strings.Join(toldBy(t, tool), "\n"))
		spooled, _ := filepath.Glob(tool.opts.SpoolDir + "/*")
		for _, path := range spooled {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clean(name+": file", string(data))
		}
		if len(spooled) != 2*test.files {
			t.Errorf("%s: %d files of two calls, want %d", name, len(spooled), 2*test.files)
		}
	}
}
