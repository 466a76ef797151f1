package store

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

func sealedFolder(t *testing.T) (dir string, s *sealed) {
	dir = t.TempDir()
	return dir, opened(t, "encrypted:"+dir).(*sealed)
}

func TestNothingIsReadableAtRest(t *testing.T) {
	dir, s := sealedFolder(t)
	word := "meadowlark"
	r := get(t, s, "r")
	if _, err := r.Append(t.Context(), Position{}, []agent.Event{event("a", word), event("a", strings.Repeat(word, 5000))}, never); err != nil {
		t.Fatal(err)
	}
	blob, err := PutBlob(t.Context(), s, "r", []byte(word))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		hash := strings.TrimPrefix(blob, "r/"+blobPrefix)
		if bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte("session")) || strings.Contains(path+string(text), hash) {
			t.Errorf("%s is readable", path)
		}
		return err
	})
	if err != nil || files != 3 {
		t.Errorf("%d files are in the folder, %v, want a record and two blobs", files, err)
	}
	if got, err := GetBlob(t.Context(), opened(t, "encrypted:"+dir), blob); string(got) != word || err != nil {
		t.Errorf("GetBlob = %q, %v", got, err)
	}
}

func TestEncryptionBindsNamesAndNumbers(t *testing.T) {
	dir, s := sealedFolder(t)
	ctx, plain := t.Context(), opened(t, dir)
	if err := s.Append(ctx, "r", 0, [][]byte{[]byte(`1`), []byte(`2`)}); err != nil {
		t.Fatal(err)
	}
	lines, err := plain.Read(ctx, "r", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, "one", []byte("content")); err != nil {
		t.Fatal(err)
	}
	object, err := plain.Get(ctx, s.object("one"))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(lines[0])
	changed[10] ^= 1
	for record, events := range map[string][][]byte{
		"another-record": lines, "another-order": {lines[1], lines[0]}, "changed": {changed}, "plain": {[]byte(`{}`)},
	} {
		if err := plain.Append(ctx, record, 0, events); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Read(ctx, record, 0); err == nil {
			t.Errorf("Read(%s) = %s, want an error", record, got)
		}
	}
	if _, err := plain.Put(ctx, s.object("two"), object); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(ctx, "two"); err == nil {
		t.Errorf("Get of an object that was moved = %q, want an error", got)
	}
	other, err := Encrypt(plain, bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Read(ctx, "r", 0); err == nil || !strings.Contains(err.Error(), "key") {
		t.Errorf("Read with another key = %s, %v, want an error", got, err)
	}
	if _, err := Encrypt(plain, []byte("short")); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("Encrypt with a short key = %v", err)
	}
}
