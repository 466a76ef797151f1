package program

import (
	"os/exec"
	"testing"
)

func TestEightBitLocales(t *testing.T) {
	for locale, want := range map[string]bool{
		"": false, "C": false, "POSIX": false, "C.UTF-8": false, "de_DE.utf8": false, "en_US.UTF-8": false,
		"cs_CZ": true, "cs_CZ.ISO-8859-2": true, "de_DE@euro": true,
	} {
		p := &Env{Getenv: func(name string) string { return map[string]string{"LANG": locale}[name] }}
		if got := p.eightBit(); got != want {
			t.Errorf("eightBit with LANG=%s = %v, want %v", locale, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for _, s := range []string{"plain.json", "a b", "it's", "$(x)", "", "ü", "*", "~x", "a;b", "-x=/y"} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("sh reads %s as %q (%v), want %q", ShellQuote(s), out, err, s)
		}
	}
}
