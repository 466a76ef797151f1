package termtext

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanRemovesWhatActsOnATerminal(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"plain text stays", "a\tb\nc é 漢字", "a\tb\nc é 漢字"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"private mode with an intermediate byte", "a\x1b[?25 pb", "ab"},
		{"cursor and erase", "\x1b[2J\x1b[Hgone", "gone"},
		{"title", "\x1b]0;owned\abc", "bc"},
		{"clipboard, ended by ST", "\x1b]52;c;ZXZpbA==\x1b\\x", "x"},
		{"hyperlink", "\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"device control string", "\x1bP+q544e\x1b\\x", "x"},
		{"application command", "\x1b_Gf=100;AAAA\x1b\\x", "x"},
		{"character set", "\x1b(0x", "x"},
		{"reset", "\x1bcx", "x"},
		{"lone escape at the end", "x\x1b", "x"},
		{"escape before a newline", "a\x1b\nb", "a\nb"},
		{"8-bit CSI", "a\u009b31mb", "ab"},
		{"8-bit OSC, ended by 8-bit ST", "a\u009d0;t\u009cb", "ab"},
		{"other C1", "a\u0085\u0084b", "ab"},
		{"raw C1 byte is no UTF-8", "a\x9b31mb", "a\uFFFD31mb"},
		{"a newline ends a string", "\x1b]0;title\nnot hidden", "\nnot hidden"},
		{"a string cannot hide more than 4 kB", "\x1b]" + strings.Repeat("h", 4095) + "seen", "seen"},
		{"a sequence within a string", "\x1b]0;a\x1b[31mb", "b"},
		{"C0", "a\x00\x01\a\b\v\f\x0e\x1fb", "ab"},
		{"DEL", "a\x7fb", "ab"},
		{"carriage return and newline", "a\r\nb\r\n\r\nc", "a\nb\n\nc"},
		{"progress bar", "10%\r20%\r\r30%\n", "10%\n20%\n30%\n"},
		{"bidirectional override", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"zero width", "a\u200bb\ufeffc\u00add", `a\u200bb\ufeffc\u00add`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"tags", "a\U000e0041b", `a\U000e0041b`},
		{"hangul filler", "a\u3164b", `a\u3164b`},
		{"joiner in an emoji stays", "👩\u200d💻", "👩\u200d💻"},
		{"joiner in ASCII", "a\u200db", `a\u200db`},
		{"two joiners", "👩\u200d\u200d", "👩\u200d\\u200d"},
		{"emoji presentation stays", "❤\ufe0f 1\ufe0f⃣", "❤\ufe0f 1\ufe0f⃣"},
		{"variation selectors as a hidden message", "x\ufe01\U000e0101", `x\ufe01\U000e0101`},
		{"Persian stays", "می\u200cخواهم", "می\u200cخواهم"},
		{"invalid UTF-8", "a\xff\xe2\x82z", "a\uFFFD\uFFFD\uFFFDz"},
		{"rune cut off at the end", "a\xe2\x82", "a\uFFFD\uFFFD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Clean(test.in)
			if got != test.want {
				t.Errorf("Clean(%q) = %q, want %q", test.in, got, test.want)
			}
			checkClean(t, test.in)
			checkSplits(t, test.in)
		})
	}
}

func TestVisibleHidesNothing(t *testing.T) {
	in := "ls\x1b[8m; rm\n\t\r\x00\x7f\u009b\u202e\xff\uFFFDé漢"
	want := `ls\x1b[8m; rm\n\t\r\x00\x7f\u009b\u202e\xff` + "\uFFFDé漢"
	if got := Visible(in); got != want {
		t.Errorf("Visible(%q) = %q, want %q", in, got, want)
	}
}

func TestEightBitWritesNoC1(t *testing.T) {
	var out bytes.Buffer
	w := EightBit(&out)
	in := "\x1b[1ma é\u011b—\x9b漢 ok\n"
	if n, err := io.WriteString(w, in); n != len(in) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if got, want := out.String(), "\x1b[1ma é\\u011b\\u2014\\x9b漢 ok\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := io.WriteString(EightBit(brokenPipe{}), "x"); err != io.ErrClosedPipe {
		t.Errorf("error %v, want that of the writer", err)
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{
		"plain", "\x1b[31mred\x1b[0m", "\x1b]0;t\a", "\x1bP\x1b\\", "a\r\nb\r", "\u009b1m\u009d\u009c",
		"\xe2\x82", "👩\u200d💻\ufe0f", "a\u202e\u200b", "\x1b(\x1b[\x1b]\x1b", "\x9b\xff\x00",
	} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		checkClean(t, s)
		if v := Visible(s); strings.ContainsFunc(v, control) || !utf8.ValidString(v) || Visible(v) != v {
			t.Errorf("Visible(%q) = %q", s, v)
		}
		if at < 0 || at > len(s) {
			return
		}
		var c Cleaner
		if got, want := c.Clean(s[:at])+c.Clean(s[at:])+c.Flush(), Clean(s); got != want {
			t.Errorf("%q split at %d: %q, whole: %q", s, at, got, want)
		}
	})
}

// checkClean checks what holds for every text.
func checkClean(t *testing.T, s string) {
	t.Helper()
	got := Clean(s)
	for _, r := range got {
		if control(r) && r != '\n' && r != '\t' {
			t.Errorf("Clean(%q) = %q: it holds %U", s, got, r)
		}
	}
	if !utf8.ValidString(got) {
		t.Errorf("Clean(%q) = %q: no UTF-8", s, got)
	}
	if again := Clean(got); again != got {
		t.Errorf("Clean(%q) = %q, and cleaned again %q", s, got, again)
	}
}

// checkSplits cleans s in two pieces, split at every place, and byte by byte.
func checkSplits(t *testing.T, s string) {
	t.Helper()
	want := Clean(s)
	var c Cleaner
	var bytewise strings.Builder
	for i := range len(s) {
		bytewise.WriteString(c.Clean(s[i : i+1]))
		if len(s) > 200 {
			continue
		}
		var two Cleaner
		if got := two.Clean(s[:i]) + two.Clean(s[i:]) + two.Flush(); got != want {
			t.Errorf("%q split at %d: %q, want %q", s, i, got, want)
		}
	}
	bytewise.WriteString(c.Flush())
	if got := bytewise.String(); got != want {
		t.Errorf("%q byte by byte: %q, want %q", s, got, want)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
