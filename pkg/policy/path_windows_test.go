package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPathsOfWindows(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &parsed{}
	for path, want := range map[string]fit{
		"x": yes, `a\b`: yes, in + `\new`: yes, filepath.ToSlash(in) + "/x": yes,
		`..\out\x`: no, "../out/x": no, in + `\..\out`: no, in + "more": no,
		`\in\x`: failed, `C:x`: failed, `\\?\` + in + `\x`: failed, "x.": failed, "x ": failed, "x::$DATA": failed, "PROGRA~1": failed,
	} {
		for _, strict := range []bool{true, false} {
			if got, err := p.inside(path, in, in, strict); got != want || (err != nil) != (want == failed) {
				t.Errorf("inside(%q, strict %v) = %v, %v, want %v", path, strict, got, err, want)
			}
		}
	}
	if got, err := p.inside(strings.ToUpper(in)+`\x`, in, in, false); got != yes {
		t.Errorf("inside in capitals = %v, %v, want yes", got, err)
	}
}
