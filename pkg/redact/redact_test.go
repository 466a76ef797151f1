package redact

import (
	"errors"
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
		{"a small part", long[:8] + " " + long[30:], long[:8] + " " + long[30:]},
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
