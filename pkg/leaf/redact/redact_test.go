package redact

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

const key = `sk-12/34"<5678`

// long is a key without characters that JSON or URLs spell differently.
const long = "sk-proj-Zk3vQ9xL2mN8bV5cX1aS7dF4gH6jK0pQwE"

func TestString(t *testing.T) {
	r := New([]string{"short", key, key + "-longer\n", long})
	for _, test := range []struct{ name, in, want string }{
		{"nothing", "nothing", "nothing"},
		{"plain", "a " + key + "!", "a [secret]!"},
		{"twice", key + key, "[secret][secret]"},
		{"a secret that contains another", key + "-longer", "[secret]"},
		{"JSON", `{"k":"sk-12/34\"<5678"}`, `{"k":"[secret]"}`},
		{"JSON with an escaped slash", `{"k":"sk-12\/34\"<5678"}`, `{"k":"[secret]"}`},
		{"JSON for HTML", `{"k":"sk-12/34\"\u003c5678"}`, `{"k":"[secret]"}`},
		{"query of a URL", "?key=sk-12%2F34%22%3C5678&x", "?key=[secret]&x"},
		{"too short", "short", "short"},
		{"cut by one character", long[:41] + "…", "[secret]…"},
		{"cut in front", "…" + long[1:], "…[secret]"},
		{"cut near the middle", long[:23] + " " + long[20:], "[secret] [secret]"},
		{"cut after a few characters", "key: " + long[:19] + "…", "key: [secret]…"},
		{"cut before a few characters", "…" + long[len(long)-13:] + " is wrong", "…[secret] is wrong"},
		{"a small part", long[:8] + " " + long[20:][:15] + " x", long[:8] + " " + long[20:][:15] + " x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := r.String(test.in); got != test.want {
				t.Errorf("String(%q) = %q, want %q", test.in, got, test.want)
			}
			if got := string(r.Bytes([]byte(test.in))); got != test.want {
				t.Errorf("Bytes(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
}

// TestSecretsWithACommonBeginning: the beginning of one secret does not hide that
// another is there.
func TestSecretsWithACommonBeginning(t *testing.T) {
	r := New([]string{"sk-ant-api03-AAAA", "sk-ant-api03-BBBB"})
	if got := r.String("x sk-ant-api03-BBBB sk-ant-api03-AAAA"); got != "x [secret] [secret]" {
		t.Errorf("got %q", got)
	}
}

func TestNoSecrets(t *testing.T) {
	r := New([]string{"short", ""})
	if r != nil {
		t.Fatalf("New of nothing that counts = %v, want nil", r)
	}
	s := r.Stream()
	if got := r.String(long) + string(r.Bytes([]byte(long))) + s.Next(long) + s.Rest(); got != long+long+long {
		t.Errorf("a nil Redactor changes texts: %q", got)
	}
}

// TestStreamFindsSecretsSplitAnywhere splits a text at every place, into pieces of
// two and into single bytes.
func TestStreamFindsSecretsSplitAnywhere(t *testing.T) {
	r := New([]string{key, long, "xyxyxyxyxy"})
	text := "my key is " + key + ", sk-12/ is none; " + long + long[:41] + "|xyxyxyxyxyxyxy" + long[:30]
	want := r.String(text)
	if strings.Contains(want, "5678") || strings.Contains(want, long[20:30]) {
		t.Fatalf("the whole text: %q", want)
	}
	splits := [][]string{strings.Split(text, "")}
	for i := range len(text) + 1 {
		splits = append(splits, []string{text[:i], text[i:]})
	}
	for _, chunks := range splits {
		var b strings.Builder
		w := r.Writer(&b)
		for _, c := range chunks {
			if n, err := w.Write([]byte(c)); n != len(c) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", c, n, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("chunks %q: %q, want %q", chunks, b.String(), want)
		}
	}
}

func TestWriterReturnsTheErrorOfItsWriter(t *testing.T) {
	r := New([]string{key})
	w := r.Writer(iotest.TruncateWriter(errWriter{}, 0))
	if _, err := w.Write([]byte("sk-")); err != nil {
		t.Errorf("nothing was written yet: %v", err)
	}
	if err := r.Writer(errWriter{}).Close(); err != nil {
		t.Errorf("Close with nothing held back: %v", err)
	}
	if _, err := r.Writer(errWriter{}).Write([]byte("text")); !errors.Is(err, errFull) {
		t.Errorf("Write: %v, want %v", err, errFull)
	}
}

var errFull = errors.New("disk full")

type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, errFull }

func FuzzStream(f *testing.F) {
	// Secrets of which no part is looked for: the end of one alone is found only
	// within a chunk.
	f.Add(`a ab/"cdefgh b`, 5)
	f.Add("xyxyxyxyxyxyxabxyxyxyxy", 14)
	r := New([]string{`ab/"cdefgh`, "xyxyxyxyxy", "xyxyxyxyxyab"})
	f.Fuzz(func(t *testing.T, s string, at int) {
		if at < 0 || at > len(s) {
			return
		}
		st := r.Stream()
		if got, want := st.Next(s[:at])+st.Next(s[at:])+st.Rest(), r.String(s); got != want {
			t.Errorf("%q split at %d: %q, whole: %q", s, at, got, want)
		}
	})
}

// spelled writes the characters of a text in ways that programs do.
var spelled = map[string]func(c byte) string{
	"%XX":          func(c byte) string { return fmt.Sprintf("%%%02X", c) },
	"%xx":          func(c byte) string { return fmt.Sprintf("%%%02x", c) },
	"quote":        func(c byte) string { return quoted(c, "/-._~", "%%%02x") },
	"quote_plus":   func(c byte) string { return strings.ReplaceAll(quoted(c, "-._~ ", "%%%02X"), " ", "+") },
	"uXXXX":        func(c byte) string { return fmt.Sprintf(`\u%04X`, c) },
	"uxxxx":        func(c byte) string { return fmt.Sprintf(`\u%04x`, c) },
	"xXX":          func(c byte) string { return fmt.Sprintf(`\x%02x`, c) },
	"JSON in JSON": func(c byte) string { return fmt.Sprintf(`\\u%04x`, c) },
	"JSON in URL":  func(c byte) string { return fmt.Sprintf(`%%5cu%04x`, c) },
	"URL in URL":   func(c byte) string { return fmt.Sprintf(`%%25%02X`, c) },
	"URL in JSON":  func(c byte) string { return fmt.Sprintf(`\u0025%02x`, c) },
	"half": func(c byte) string {
		return map[bool]string{true: string(c), false: fmt.Sprintf("%%%02x", c)}[c%2 == 0]
	},
}

func quoted(c byte, safe, format string) string {
	if c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte(safe, c) >= 0 {
		return string(c)
	}
	return fmt.Sprintf(format, c)
}

// However a program spells a secret, whole or cut, it is not passed on, in one piece or in
// chunks of any size.
func TestEscapedSecretsAreFound(t *testing.T) {
	for _, secret := range []string{long, `sk 12/34"<56\78+=?&`, "100%41-sure-thing"} {
		r := New([]string{secret})
		for name, spell := range spelled {
			var b strings.Builder
			for i := range len(secret) {
				b.WriteString(spell(secret[i]))
			}
			for _, text := range []string{"<" + b.String() + ">", "a 5% \\ " + b.String() + `\u00`} {
				want := strings.Replace(text, b.String(), Mark, 1)
				if got := r.String(text); got != want {
					t.Errorf("%s: String(%q) = %q, want %q", name, text, got, want)
				}
				for size := range 9 {
					s, got := r.Stream(), ""
					for i := 0; i < len(text); i += size + 1 {
						got += s.Next(text[i:min(i+size+1, len(text))])
					}
					if got += s.Rest(); got != want {
						t.Errorf("%s: %q in chunks of %d: %q, want %q", name, text, size+1, got, want)
					}
				}
			}
		}
	}
	r := New([]string{long})
	cut := strings.ReplaceAll(long[:30], "-", "%2d") + "%2"
	if got := r.String(cut); got != Mark+"%2" {
		t.Errorf("String(%q) = %q", cut, got)
	}
}
