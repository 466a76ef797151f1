package session

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// verified writes a file and verifies it.
func verified(t *testing.T, path string, content []byte) (*Verification, error) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return Verify(path)
}

// withChecksums returns lines with right checksums, as somebody who changes a session on
// purpose would write them. Their chain is left as it is.
func withChecksums(lines [][]byte) []byte {
	var b []byte
	sum := uint32(0)
	for _, line := range lines {
		body, _, _ := tail(bytes.TrimSuffix(line, []byte("\n")))
		sum = crc32.Update(sum, crc32.IEEETable, body)
		b = append(appendSum(append(append(b, body...), sumStart...), sum), "\"}\n"...)
	}
	return b
}

// withoutChain returns lines as earlier versions wrote them.
func withoutChain(lines [][]byte) []byte {
	var bare [][]byte
	for _, line := range lines {
		body, _, _ := tail(bytes.TrimSuffix(line, []byte("\n")))
		body, _, _ = cutChain(body)
		bare = append(bare, append(bytes.Clone(body), `,"sum":"00000000"}`+"\n"...))
	}
	return withChecksums(bare)
}

func newKey(b byte) (ed25519.PublicKey, ed25519.PrivateKey) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	return key.Public().(ed25519.PublicKey), key
}

// TestTheChainIsWhatTheManualSays computes the chain of each line as docs/audit.md says.
func TestTheChainIsWhatTheManualSays(t *testing.T) {
	whole, _ := small(t, true)
	chain := strings.Repeat("0", 64)
	for line := range bytes.Lines(whole) {
		body, end, ok := strings.Cut(string(line), `,"chain":"`)
		hash := sha256.Sum256([]byte(chain + body))
		chain = hex.EncodeToString(hash[:])
		if !ok || !strings.HasPrefix(end, chain+`","sum":"`) {
			t.Fatalf("the line is %s, want the chain %s", line, chain)
		}
	}
}

func TestEveryKindOfChangeBreaksTheChain(t *testing.T) {
	whole, _ := small(t, true)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	v, err := verified(t, path, whole)
	if n := bytes.Count(whole, []byte("\n")); err != nil || v.Lines != n || v.Since != 1 || !v.Closed || v.CutBytes != 0 {
		t.Fatalf("Verify = %+v, %v, want %d lines of a closed session", v, err, n)
	}
	lines := slices.Collect(bytes.Lines(whole))
	for name, c := range map[string]struct {
		change func(lines [][]byte) [][]byte
		line   int // where it is noticed
	}{
		"changed": {func(l [][]byte) [][]byte {
			l[9] = bytes.Replace(l[9], []byte("result of a"), []byte("result of b"), 1)
			return l
		}, 10},
		"removed":                {func(l [][]byte) [][]byte { return slices.Delete(l, 4, 5) }, 5},
		"inserted":               {func(l [][]byte) [][]byte { return slices.Insert(l, 5, l[5]) }, 7},
		"reordered":              {func(l [][]byte) [][]byte { l[5], l[6] = l[6], l[5]; return l }, 6},
		"the first line removed": {func(l [][]byte) [][]byte { return l[1:] }, 1},
		"lacks its chain": {func(l [][]byte) [][]byte {
			l[7] = withoutChain(l[7:8])
			return l
		}, 8},
		"other chain": {func(l [][]byte) [][]byte {
			body, _, _ := tail(bytes.TrimSuffix(l[8], []byte("\n")))
			body, _, _ = cutChain(body)
			l[8] = append(bytes.Clone(body), chainStart+strings.Repeat("0", 64)+`","sum":"00000000"}`+"\n"...)
			return l
		}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			changed := withChecksums(c.change(slices.Clone(lines)))
			v, err := verified(t, path, changed)
			damage, ok := errors.AsType[*DamageError](err)
			if !ok || damage.Line != c.line || v.Lines != c.line-1 {
				t.Errorf("Verify = %+v, %v, want damage at line %d", v, err, c.line)
			}
		})
	}
}

// TestAChainThatWasComputedAnew: only a signature shows what somebody changed who knows
// how the chain is computed, and lines that are missing at the end.
func TestAChainThatWasComputedAnew(t *testing.T) {
	whole, _ := small(t, true)
	path := filepath.Join(t.TempDir(), "s.jsonl")
	v, err := verified(t, path, whole)
	if err != nil {
		t.Fatal(err)
	}
	public, private := newKey(1)
	if err := v.Signed(public); !errors.Is(err, ErrUnsigned) {
		t.Errorf("before it is signed: %v", err)
	}
	if err := v.Sign(path, private, time.Unix(1e9, 5)); err != nil {
		t.Fatal(err)
	}
	check := func(what string, content []byte, want error) {
		t.Helper()
		v, err := verified(t, path, content)
		if err != nil {
			t.Fatalf("%s: the chain: %v", what, err)
		}
		if err := v.Signed(public); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	check("signed", whole, nil)

	lines := slices.Collect(bytes.Lines(whole))
	check("truncated", bytes.Join(lines[:len(lines)-1], nil), ErrAfterSigning)
	var anew []byte
	var e ends
	for _, line := range lines {
		body, _, _ := tail(bytes.TrimSuffix(line, []byte("\n")))
		body, _, _ = cutChain(body)
		start := len(anew)
		anew = e.seal(append(anew, bytes.ReplaceAll(body, []byte("result of a"), []byte("result of b"))...), start, -1)
	}
	check("computed anew", anew, ErrAfterSigning)
	check("with another line", append(bytes.Clone(whole), new(ends).after(t, whole, `{"kind":"closed","time":"2026-11-21T15:30:12Z"`)...), ErrAfterSigning)

	v, _ = verified(t, path, whole)
	other, _ := newKey(2)
	if err := v.Signed(other); !errors.Is(err, ErrOtherKey) {
		t.Errorf("with another key: %v", err)
	}
	v.Signature.Lines--
	if err := v.Signed(public); !errors.Is(err, ErrOtherKey) {
		t.Errorf("a signature that was changed: %v", err)
	}
	for what, text := range map[string]string{"no JSON": "x", "large": strings.Repeat(" ", 20_000) + "{}"} {
		if err := os.WriteFile(path+signatureSuffix, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(path); err == nil || v.Lines == 0 || v.Signature != nil {
			t.Errorf("%s: Verify = %+v, %v", what, v, err)
		}
	}
}

// after returns a line that follows those of a file.
func (e *ends) after(t *testing.T, whole []byte, body string) []byte {
	t.Helper()
	s, err := runFirstPass(bytes.NewReader(whole), int64(len(whole)), "x.jsonl", false)
	if err != nil {
		t.Fatal(err)
	}
	e.sum = s.sum
	if e.link, err = s.lastLink(); err != nil {
		t.Fatal(err)
	}
	return e.seal([]byte(body), 0, -1)
}

// TestTheChainContinues: a session that another process continues is verified as a whole,
// also after a crash in the middle of a line and after a version without a chain.
func TestTheChainContinues(t *testing.T) {
	whole, events := small(t, false)
	lines := slices.Collect(bytes.Lines(whole))
	for name, c := range map[string]struct {
		content []byte
		since   int
	}{
		"complete":           {whole, 1},
		"torn":               {whole[:len(whole)-20], 1},
		"an earlier version": {withoutChain(lines), len(lines) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.jsonl")
			v, err := verified(t, path, c.content)
			if err != nil || v.Closed || (v.CutBytes > 0) != (name == "torn") || (v.Since == 0) != (c.since > 1) {
				t.Errorf("before: Verify = %+v, %v", v, err)
			}
			j, _, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := events[0]
			e.Kind, e.Message = agent.EventMessage, &agent.Message{Role: agent.RoleUser}
			if err := errors.Join(j.Append(context.Background(), e), j.Close()); err != nil {
				t.Fatal(err)
			}
			if v, err = Verify(path); err != nil || v.Since != c.since || !v.Closed || v.CutBytes != 0 {
				t.Errorf("after: Verify = %+v, %v", v, err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(bytes.Lines(content))
			lines[3] = bytes.Replace(lines[3], []byte(`"agent"`), []byte(`"other"`), 1)
			if _, err := verified(t, path, withChecksums(lines)); err == nil {
				t.Error("a line in front of the part that was continued was changed, and Verify does not notice")
			}
		})
	}
}

func TestAChangedBlobIsFound(t *testing.T) {
	j := Create(t.TempDir(), Options{})
	text := strings.Repeat("x", blobBytes+1)
	if err := errors.Join(j.Append(t.Context(), agent.Event{Kind: agent.EventMessage, Session: "s", Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{agent.Text(text)}}}), j.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(j.Path()); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(j.Path(), blobsDir, "*"))
	if err != nil || len(blobs) != 1 {
		t.Fatal(blobs, err)
	}
	if err := os.WriteFile(blobs[0], []byte(text+"y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(j.Path()); err == nil {
		t.Error("Verify does not notice it")
	}
}

func TestASignatureIsRemovedWithItsSession(t *testing.T) {
	j := Create(t.TempDir(), Options{})
	if err := errors.Join(j.Append(t.Context(), agent.Event{Kind: agent.EventSession, Session: "s"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	_, private := newKey(1)
	if err := errors.Join(v.Sign(j.Path(), private, time.Now()), Remove(j.Path())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(j.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestALineAllocatesNothingForItsChain(t *testing.T) {
	var e ends
	b := make([]byte, 0, 1000)
	body := []byte(`{"kind":"end"`)
	b = e.seal(append(b[:0], body...), 0, -1) // the hash is made once
	if n := testing.AllocsPerRun(100, func() { b = e.seal(append(b[:0], body...), 0, 5) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
