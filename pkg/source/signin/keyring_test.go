package signin_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/source/signin"
	"github.com/agents-exe/agents/pkg/source/signin/signintest"
	"github.com/zalando/go-keyring"
)

// file returns the text of the only file with a sign-in.
func file(t *testing.T, s *signin.Server) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*"))
	if len(files) != 1 {
		t.Fatalf("files = %v, want one", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func works(t *testing.T, s *signin.Server) {
	t.Helper()
	if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
		t.Errorf("call = %q, %v", text, err)
	}
}

// another returns s as another process opens it.
func another(s *signin.Server) *signin.Server {
	return &signin.Server{URL: s.URL, Dir: s.Dir, Command: s.Command, Keyring: s.Keyring}
}

func TestTheKeyringEncryptsTokens(t *testing.T) {
	keyring.MockInit()
	fake := signintest.Start(t)
	s := server(t, fake)
	s.Keyring = true
	login(t, s)
	works(t, s)
	works(t, another(s))
	if text := file(t, s); strings.Contains(text, "token-number") || !strings.Contains(text, `"sealed"`) {
		t.Errorf("the file is %s", text)
	}
	if issuer, ends, err := another(s).State(); issuer != fake.Issuer || !ends.IsZero() || err != nil {
		t.Errorf("State = %q, %v, %v", issuer, ends, err)
	}
	fake.Expire()
	works(t, another(s)) // with the refresh token
	works(t, s)
	if fake.Count("refresh") != 1 || fake.Count("register") != 1 || strings.Contains(file(t, s), "token-number") {
		t.Errorf("refreshes = %d, the file is %s", fake.Count("refresh"), file(t, s))
	}
	login(t, another(s), "write") // its key is used again
	works(t, s)
	if fake.Count("register") != 1 || fake.Scopes != "read write" {
		t.Errorf("registrations = %d, scopes = %q", fake.Count("register"), fake.Scopes)
	}
	if was, revoked, err := another(s).Logout(t.Context()); !was || revoked != nil || err != nil || fake.Count("revoke") != 1 {
		t.Errorf("Logout = %v, %v, %v", was, revoked, err)
	}
	login(t, another(s)) // with a new key
	works(t, s)
}

func TestTokensOfAFileStayReadable(t *testing.T) {
	keyring.MockInit()
	fake := signintest.Start(t)
	s := server(t, fake)
	login(t, s)
	s.Keyring = true
	works(t, s)
	fake.Expire()
	works(t, s)
	if text := file(t, s); strings.Contains(text, "token-number") {
		t.Errorf("the refreshed tokens are not encrypted: %s", text)
	}
}

func TestALostKeyNamesTheCommand(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*signin.Server)
		want string
	}{
		"the key is gone":           {func(*signin.Server) { keyring.MockInit() }, "(secret not found in keyring)"},
		"another key":               {func(s *signin.Server) { replaceKeys(t, s) }, "(cipher: message authentication failed)"},
		"the keyring does not work": {func(*signin.Server) { keyring.MockInitWithError(errors.New("locked")) }, "(locked)"},
		"there is no keyring":       {func(s *signin.Server) { s.Keyring = false }, "(it is not available here, or turned off)"},
	} {
		t.Run(name, func(t *testing.T) {
			keyring.MockInit()
			fake := signintest.Start(t)
			s := server(t, fake)
			s.Keyring = true
			login(t, s)
			s = another(s)
			c.lose(s)
			_, err := call(t.Context(), s, "tools/list")
			var required *signin.Required
			if !errors.As(err, &required) || !strings.Contains(err.Error(), c.want+": run `agents mcp login x`") {
				t.Fatalf("call = %v, want %q and the command", err, c.want)
			}
			if issuer, _, err := s.State(); issuer != fake.Issuer || err != nil {
				t.Errorf("State = %q, %v", issuer, err)
			}
			login(t, s)
			works(t, s)
			if was, revoked, err := s.Logout(t.Context()); !was || revoked != nil || err != nil {
				t.Errorf("Logout = %v, %v, %v", was, revoked, err)
			}
		})
	}
}

// replaceKeys gives the file of s another key.
func replaceKeys(t *testing.T, s *signin.Server) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*"))
	if err := keyring.Set("agents", files[0], strings.Repeat("A", 43)+"="); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAKeyringTheFileHasTheTokens(t *testing.T) {
	keyring.MockInitWithError(errors.New("no such service"))
	fake := signintest.Start(t)
	s := server(t, fake)
	s.Keyring = true
	login(t, s)
	works(t, another(s))
	if text := file(t, s); !strings.Contains(text, "access-token-number") {
		t.Errorf("the file is %s", text)
	}
}

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

func TestKeysInTheKeyring(t *testing.T) {
	keyring.MockInit()
	ctx := t.Context()
	if _, err := signin.StoredKey(ctx, "openai"); err == nil || !strings.Contains(err.Error(), "agents keys set openai --keyring") {
		t.Errorf("StoredKey = %v", err)
	}
	for _, key := range []string{"sk-one", "sk-two"} {
		err := signin.StoreKey(ctx, "openai", key)
		if got, readErr := signin.StoredKey(ctx, "openai"); err != nil || readErr != nil || got != key {
			t.Errorf("StoredKey = %q, %v, %v", got, err, readErr)
		}
	}
	for range 2 { // the second time it is not there
		if err := signin.RemoveKey(ctx, "openai"); err != nil {
			t.Error(err)
		}
	}
	keyring.MockInitWithError(errors.New("locked"))
	if _, err := signin.StoredKey(ctx, "openai"); err == nil || err.Error() != "locked" {
		t.Errorf("StoredKey = %v", err)
	}
}
