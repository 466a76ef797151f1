package tmuxtest

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	s := Open(t, Options{Command: `read -r line; echo "got $line in $(stty size)"; read -r line; echo "then $line"`, Columns: 40, Rows: 10})
	s.Type("Enter -l 日本")
	s.Press("Enter")
	s.Await(`^got Enter -l 日本 in 10 40$`)
	s.Resize(80, 20)
	s.Paste("pasted\n")
	s.Await(`^then pasted$`)
	if got := s.Visible(); !strings.Contains(got, "then pasted") {
		t.Errorf("Visible() = %q, want the last line in it", got)
	}
}

func TestNormal(t *testing.T) {
	got := Normal("at /tmp/x/1: 20261122-175057-k3v7q2xmd5 took 1.25s  \n12ms, 2m03s, 3 s, 17 sessions, v1.2\nsince 2026-11-22 17:50:57\n\n", map[string]string{"/tmp/x/1": "DIR"})
	want := "at DIR: SESSION took 0.0s\n0.0s, 0.0s, 0.0s, 17 sessions, v1.2\nsince 2006-01-02 15:04\n"
	if got != want {
		t.Errorf("Normal() =\n%s\nwant\n%s", got, want)
	}
}
