package exectool

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolEnvironment(t *testing.T) {
	d := newDumper(t)
	dir := t.TempDir()
	base := append(os.Environ(), "AGENT_SESSION_ID=outer", "AGENT_ID=outer", "AGENTS_CALL_ID=outer", "AGENTS_CALL_ID=outer2", "X_TOKEN=secret",
		"OTHER_PASSWORD=handed through", "PLAIN=1", "PLAIN=2", "TRACEPARENT=outer", "BIG="+strings.Repeat("x", 200_000))
	tool, err := d.open(Source{Env: []string{"OTHER_PASSWORD"}, Dir: dir}, Options{Environ: base}, plain("dumper"))
	if err != nil {
		t.Fatal(err)
	}
	inv := invocation("")
	inv.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	got, err := d.invoke(tool, inv)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for _, entry := range got.Env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = append(values[name], value)
	}
	want := map[string][]string{
		"AGENTS_SESSION_ID": {inv.Session}, "AGENTS_CALL_ID": {inv.Key}, "AGENTS_AGENT": {"boss"}, "AGENTS_FILE": nil,
		"AGENT_SESSION_ID": {inv.Session}, "AGENT_CONVERSATION_ID": {inv.Session}, "AGENT_TURN_ID": {inv.Session + ".2"},
		"AGENT_AGENT_ID": {"boss"}, "AGENT_ID": {"boss"},
		"X_TOKEN": nil, "OTHER_PASSWORD": {"handed through"}, "PLAIN": {"2"}, "BIG": nil, "TRACEPARENT": {inv.Trace}, "PATH": {os.Getenv("PATH")},
	}
	for name, value := range want {
		if diff := cmp.Diff(value, values[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, list := range values {
		if len(list) != 1 {
			t.Errorf("%s is there %d times", name, len(list))
		}
	}
	if got.Dir != dir {
		t.Errorf("working directory %s, want %s", got.Dir, dir)
	}
	if len(got.Stdin) != 0 {
		t.Errorf("stdin = %q, want nothing", got.Stdin)
	}
}
