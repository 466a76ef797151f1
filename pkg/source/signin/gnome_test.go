package signin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/signin/signintest"
	"github.com/zalando/go-keyring"
)

// insideVariable is set in the test that runs in a D-Bus session of its own: "unlocked" or
// "locked", as its keyring is.
const insideVariable = "SIGNIN_TEST_KEYRING"

// TestTheKeyringOfGNOME runs the tests below in D-Bus sessions with a real keyring. A locked one
// has no person to ask for the password.
func TestTheKeyringOfGNOME(t *testing.T) {
	for _, program := range []string{"dbus-run-session", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("this test needs dbus-run-session and gnome-keyring-daemon (Debian: dbus-daemon, gnome-keyring)")
		}
	}
	home, runtime := t.TempDir(), t.TempDir()
	for _, c := range []struct{ state, start string }{
		{"unlocked", "printf pw | gnome-keyring-daemon --unlock --components=secrets"},
		{"locked", "gnome-keyring-daemon --start --components=secrets"},
	} {
		script := c.start + ` >/dev/null && exec "$0" -test.run '^TestInsideASession$' -test.v`
		cmd := exec.Command("dbus-run-session", "--", "sh", "-c", script, os.Args[0])
		cmd.Env = append(os.Environ(), insideVariable+"="+c.state, "HOME="+home, "XDG_DATA_HOME="+home, "XDG_RUNTIME_DIR="+runtime, "DISPLAY=", "WAYLAND_DISPLAY=")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestInsideASession") {
			t.Errorf("%s: %v\n%s", c.state, err, out)
		}
	}
}

func TestInsideASession(t *testing.T) {
	state := os.Getenv(insideVariable)
	if state == "" {
		return // TestTheKeyringOfGNOME runs it
	}
	fake := signintest.Start(t)
	s := server(t, fake)
	s.Keyring = true
	login(t, s)
	works(t, another(s))
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*"))
	text := file(t, s)
	if encrypted := !strings.Contains(text, "token-number"); encrypted != (state == "unlocked") {
		t.Errorf("the file is %s", text)
	}
	if was, revoked, err := another(s).Logout(t.Context()); !was || revoked != nil || err != nil {
		t.Errorf("Logout = %v, %v, %v", was, revoked, err)
	}
	if key, err := keyring.Get("agents", files[0]); state == "unlocked" && err != keyring.ErrNotFound {
		t.Errorf("after the logout the keyring has %q, %v", key, err)
	}
}
