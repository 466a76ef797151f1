package mediatype_test

import (
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/mediatype"
)

func TestTypeOfAFile(t *testing.T) {
	for path, want := range map[string]string{"a.svg": "image/svg+xml", "a.PNG": "image/png", "a": "text/plain", "a.mp4": "video/mp4", "notes.md": "text/plain"} {
		if got := mediatype.Of(path, []byte("<svg")); got != want {
			t.Errorf("Of(%s) = %s, want %s", path, got, want)
		}
	}
}
