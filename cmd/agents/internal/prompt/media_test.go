package prompt

import "testing"

func TestMediaTypeOfAFileName(t *testing.T) {
	for path, want := range map[string]string{"a.svg": "image/svg+xml", "a.PNG": "image/png", "a": "text/plain"} {
		if got := MediaType(path, []byte("<svg")); got != want {
			t.Errorf("MediaType(%s) = %s, want %s", path, got, want)
		}
	}
}
