package prompt

import "testing"

func TestMediaTypeOfAFileName(t *testing.T) {
	for path, want := range map[string]string{"a.svg": "image/svg+xml", "a.PNG": "image/png", "a": "text/plain"} {
		if got := mediaType(path, []byte("<svg")); got != want {
			t.Errorf("mediaType(%s) = %s, want %s", path, got, want)
		}
	}
}
