package signin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/source/signin"
	"github.com/agents-exe/agents/pkg/source/signin/signintest"
)

// browser follows the redirects of an address, as a person's browser does.
func browser(t *testing.T) signin.Person {
	return func(_ context.Context, address string) (string, error) {
		resp, err := http.Get(address)
		if err == nil {
			resp.Body.Close()
		}
		return "", err
	}
}

func server(t *testing.T, s *signintest.Server) *signin.Server {
	return &signin.Server{URL: s.URL, Dir: filepath.Join(t.TempDir(), "mcp"), Command: "agents mcp login x"}
}

// call makes a request to s and returns its text.
func call(ctx context.Context, s *signin.Server, method string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`))
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: s.Transport(http.DefaultTransport)}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func login(t *testing.T, s *signin.Server, scopes ...string) {
	t.Helper()
	if err := s.Login(t.Context(), nil, scopes, browser(t)); err != nil {
		t.Fatalf("Login = %v", err)
	}
}

func TestLoginKeepsTokensForTheirOwnerAlone(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	_, err := call(t.Context(), s, "tools/list")
	var required *signin.Required
	if !errors.As(err, &required) || !strings.Contains(err.Error(), "the server requires a sign-in: run `agents mcp login x`") {
		t.Fatalf("before the sign-in: %v, want a *Required with the command", err)
	}
	login(t, s)
	if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
		t.Errorf("after the sign-in: %q, %v", text, err)
	}
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*"))
	if len(files) != 1 {
		t.Fatalf("files = %v, want one", files)
	}
	if info, err := os.Stat(files[0]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
	if issuer, ends, err := s.State(); err != nil || issuer != fake.Issuer || !ends.IsZero() || fake.Scopes != "read" {
		t.Errorf("State = %q, %v, %v with scopes %q", issuer, ends, err, fake.Scopes)
	}
	login(t, s, "write") // again: the registration is used again, the scopes add up
	if fake.Count("register") != 1 || fake.Scopes != "read write" {
		t.Errorf("registrations = %d, scopes = %q", fake.Count("register"), fake.Scopes)
	}
}

func TestTokensAreSentToTheirServerAlone(t *testing.T) {
	fake, other := signintest.Start(t), signintest.Start(t)
	s := server(t, fake)
	login(t, s)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, other.URL, strings.NewReader("{}"))
	resp, err := s.Transport(http.DefaultTransport).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Request.Header.Get("Authorization") != "" {
		t.Error("the token went to another server")
	}
	// The file of one server does not serve another one.
	elsewhere := &signin.Server{URL: fake.URL + "/below", Dir: s.Dir}
	if issuer, _, err := elsewhere.State(); err != nil || issuer != "" {
		t.Errorf("State of another URL = %q, %v", issuer, err)
	}
	bound := &signin.Server{URL: fake.URL, Dir: s.Dir, Client: signin.Client{Issuer: "https://other.example"}}
	if issuer, _, err := bound.State(); err != nil || issuer != "" {
		t.Errorf("State with another issuer = %q, %v", issuer, err)
	}
}

// TestOneRefreshForAll: clients with stores of their own, as several processes have them, use a
// refresh token once.
func TestOneRefreshForAll(t *testing.T) {
	fake := signintest.Start(t)
	first := server(t, fake)
	login(t, first)
	fake.Expire()
	fake.Lock()
	fake.Slow = 50 * time.Millisecond // others wait for the lock meanwhile
	fake.Unlock()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := &signin.Server{URL: first.URL, Dir: first.Dir}
			if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
				t.Errorf("call = %q, %v", text, err)
			}
		})
	}
	wg.Wait()
	if n := fake.Count("refresh"); n != 1 {
		t.Errorf("refreshes = %d, want 1", n)
	}
	if n := fake.Count("reuse"); n != 0 {
		t.Errorf("a refresh token was sent again %d times", n)
	}
}

// TestACancelledCallKeepsTheRefresh: the refresh token is used up when its call is cancelled.
func TestACancelledCallKeepsTheRefresh(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	login(t, s)
	fake.Expire()
	ctx, cancel := context.WithCancel(t.Context())
	s.HTTP = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		cancel() // the answer is on its way
		return resp, err
	})
	_, _ = call(ctx, s, "tools/list")
	s.HTTP = nil
	if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
		t.Errorf("call = %q, %v", text, err)
	}
	if fake.Count("refresh") != 1 || fake.Count("reuse") != 0 {
		t.Errorf("refreshes = %d, reuses = %d, want 1 and 0", fake.Count("refresh"), fake.Count("reuse"))
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestExpiredTokensAreRefreshedBeforeTheRequest(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	fake.Lifetime = 10 * time.Second
	login(t, s)
	if _, err := call(t.Context(), s, "tools/list"); err != nil || fake.Count("refresh") != 1 {
		t.Errorf("call = %v with %d refreshes, want one", err, fake.Count("refresh"))
	}
}

func TestFailedRefreshes(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*signintest.Server)
		want    string
		kept    bool // the sign-in is usable later
	}{
		"the server is down":             {func(f *signintest.Server) { f.Fail = 503 }, "refresh the sign-in: ", true},
		"too many requests":              {func(f *signintest.Server) { f.Fail = 429 }, "refresh the sign-in: ", true},
		"a timeout of the server":        {func(f *signintest.Server) { f.Fail = 408 }, "refresh the sign-in: ", true},
		"the sign-in is no longer valid": {func(f *signintest.Server) { f.Fail = 400 }, "the sign-in is no longer valid (", false},
	} {
		t.Run(name, func(t *testing.T) {
			fake := signintest.Start(t)
			s := server(t, fake)
			login(t, s)
			fake.Expire()
			fake.Lock()
			c.prepare(fake)
			fake.Unlock()
			_, err := call(t.Context(), s, "tools/list")
			var required *signin.Required
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &required) == c.kept {
				t.Errorf("call = %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "refresh-token-number") {
				t.Errorf("the error shows a token: %v", err)
			}
		})
	}
	fake := signintest.Start(t)
	fake.NoRefresh = true
	s := server(t, fake)
	login(t, s)
	fake.Expire()
	if _, err := call(t.Context(), s, "tools/list"); err == nil || !strings.Contains(err.Error(), "did not accept the sign-in: run") {
		t.Errorf("without a refresh token: %v", err)
	}
}

// Some servers write the lifetime as a string; one that is no number counts as unknown.
func TestLifetimeOfATokenInAnyForm(t *testing.T) {
	for _, c := range []struct {
		life      any
		refreshes int
	}{
		{10, 1}, {"10", 1}, {10.5, 1}, {"3600", 0}, {3600, 0}, {nil, 0}, {"soon", 0}, {"", 0}, {-1, 0}, {1e300, 0}, {true, 0}, {[]int{1}, 0},
	} {
		t.Run(fmt.Sprint(c.life), func(t *testing.T) {
			fake := signintest.Start(t)
			s := server(t, fake)
			fake.ExpiresIn = func() any { return c.life }
			login(t, s)
			if _, err := call(t.Context(), s, "tools/list"); err != nil || fake.Count("refresh") != c.refreshes {
				t.Errorf("call = %v with %d refreshes, want %d", err, fake.Count("refresh"), c.refreshes)
			}
		})
	}
}

// A refresh token that can be used once is not lost where its successor cannot be stored.
func TestRefreshThatCannotBeStored(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	s.Dir = t.TempDir()
	root := os.Geteuid() == 0 // whom the mode of a folder does not stop, but a full disk
	if root {
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", s.Dir).CombinedOutput(); err != nil {
			t.Skipf("mount: %v\n%s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", s.Dir).Run() })
	}
	login(t, s)
	fake.Expire()
	if root {
		if err := os.WriteFile(filepath.Join(s.Dir, "full"), make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("there is room for a megabyte")
		}
	} else {
		if runtime.GOOS == "windows" {
			t.Skip("the mode of a folder does not stop this user")
		}
		if err := os.Chmod(s.Dir, 0o500); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(s.Dir, 0o700)
	}
	if _, err := call(t.Context(), s, "tools/list"); err == nil || !strings.Contains(err.Error(), "could not be stored") || fake.Count("refresh") != 0 {
		t.Errorf("call = %v with %d refreshes, want an error and none", err, fake.Count("refresh"))
	}
}

// What fails only after the refresh token was used is kept for the next calls.
func TestRefreshThatIsNotStoredIsKept(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	login(t, s)
	path := func() string {
		files, _ := filepath.Glob(filepath.Join(s.Dir, "*.json"))
		return files[0]
	}()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fake.Expire()
	s.HTTP = roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if r.URL.Path == "/token" { // from here on the file cannot be replaced
			_ = os.Remove(path)
			_ = os.MkdirAll(filepath.Join(path, "x"), 0o700)
		}
		return resp, err
	})
	if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
		t.Fatalf("call = %q, %v", text, err)
	}
	s.HTTP = nil
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	fake.Expire()
	for range 2 {
		if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
			t.Errorf("call = %q, %v", text, err)
		}
	}
	if fake.Count("refresh") != 2 || fake.Count("reuse") != 0 {
		t.Errorf("refreshes = %d, reuses = %d, want 2 and 0", fake.Count("refresh"), fake.Count("reuse"))
	}
}

// What an MCP server names for the sign-in is https, and not a private address.
func TestWhereASignInIsDirected(t *testing.T) {
	for _, issuer := range []string{"http://10.0.0.7:8080", "http://192.168.1.1", "http://169.254.169.254/latest", "https://10.0.0.7", "https://[fd00::1]", "https://169.254.169.254", "http://public.example"} {
		t.Run(issuer, func(t *testing.T) {
			fake := signintest.Start(t)
			s := server(t, fake)
			fake.Issuer = issuer
			s.HTTP = roundTripper(func(r *http.Request) (*http.Response, error) {
				if !strings.HasPrefix(s.URL, "http://"+r.URL.Host) {
					t.Errorf("%s was asked", r.URL)
					return nil, errors.New("no route")
				}
				return http.DefaultTransport.RoundTrip(r)
			})
			err := s.Login(t.Context(), nil, nil, browser(t))
			if err == nil || !strings.Contains(err.Error(), "which is not public") && !strings.Contains(err.Error(), "is not https") {
				t.Errorf("Login = %v, want a refusal", err)
			}
		})
	}
}

func TestInsufficientScopeNamesTheScope(t *testing.T) {
	fake := signintest.Start(t)
	fake.CallScope = "write"
	s := server(t, fake)
	login(t, s)
	_, err := call(t.Context(), s, "tools/call")
	if err == nil || !strings.Contains(err.Error(), "run `agents mcp login x --scope 'write'`") {
		t.Fatalf("call = %v, want the command with the scope", err)
	}
	fake.Lock()
	fake.CallScope = "a'b"
	fake.Unlock()
	if _, err := call(t.Context(), s, "tools/call"); err == nil || !strings.Contains(err.Error(), `--scope 'a'\''b'`) {
		t.Errorf("call = %v, want a command that is safe to paste into a shell", err)
	}
	fake.Lock()
	fake.CallScope = "write"
	fake.Unlock()
	login(t, s, "write")
	if text, err := call(t.Context(), s, "tools/call"); err != nil || !strings.Contains(text, "hello") {
		t.Errorf("call = %q, %v", text, err)
	}
}

func TestResponsesDoNotShowTokens(t *testing.T) {
	fake := signintest.Start(t)
	fake.Echo = true
	s := server(t, fake)
	login(t, s)
	text, err := call(t.Context(), s, "tools/call")
	if err != nil || !strings.Contains(text, "hello [secret]") {
		t.Errorf("call = %q, %v, want the token replaced", text, err)
	}
}

func TestLoginRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*signintest.Server, *signin.Server)
		want    string
	}{
		"another resource":        {func(f *signintest.Server, _ *signin.Server) { f.Resource = "https://victim.example/mcp" }, "describes another resource"},
		"a path beside":           {func(f *signintest.Server, _ *signin.Server) { f.Resource = f.Issuer + "/mc" }, "describes another resource"},
		"another issuer":          {func(f *signintest.Server, _ *signin.Server) { f.Iss = "https://evil.example" }, "comes from the authorization server"},
		"not the one of the file": {func(_ *signintest.Server, s *signin.Server) { s.Client.Issuer = "https://as.example" }, "not https://as.example"},
		"no sign-in":              {func(f *signintest.Server, _ *signin.Server) { f.NoMetadata = true }, "does not require a sign-in"},
		"a server in clear text":  {func(_ *signintest.Server, s *signin.Server) { s.URL = "http://mcp.example/mcp" }, "is not https"},
		"no folder":               {func(_ *signintest.Server, s *signin.Server) { s.Dir = "" }, "no folder"},
		"a code that is refused":  {func(f *signintest.Server, _ *signin.Server) { f.Fail = 400 }, "exchange the code: "},
	} {
		t.Run(name, func(t *testing.T) {
			fake := signintest.Start(t)
			s := server(t, fake)
			c.prepare(fake, s)
			if err := s.Login(t.Context(), nil, nil, browser(t)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Login = %v, want %q", err, c.want)
			}
			if issuer, _, _ := s.State(); issuer != "" {
				t.Errorf("State = %q after a failure", issuer)
			}
		})
	}
}

func TestAnAddressCanBePasted(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	person := func(_ context.Context, address string) (string, error) {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Get(address)
		if err != nil {
			return "", err
		}
		resp.Body.Close()
		return " " + resp.Header.Get("Location") + "\n", nil
	}
	if err := s.Login(t.Context(), nil, nil, person); err != nil {
		t.Fatalf("Login = %v", err)
	}
	if _, err := call(t.Context(), s, "tools/list"); err != nil {
		t.Error(err)
	}
	err := s.Login(t.Context(), nil, nil, func(context.Context, string) (string, error) {
		return "http://127.0.0.1:1/callback?code=x&state=of-another", nil
	})
	if err == nil || !strings.Contains(err.Error(), "does not belong to this sign-in") {
		t.Errorf("Login = %v, want an error about the state", err)
	}
}

func TestLoginEndsWithItsContext(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Login(ctx, nil, nil, func(context.Context, string) (string, error) { cancel(); return "", nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Login = %v, want %v", err, context.Canceled)
	}
}

func TestTokensAreBoundToAKey(t *testing.T) {
	fake := signintest.Start(t)
	fake.Proofs = true
	s := server(t, fake)
	login(t, s)
	for range 2 {
		if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") {
			t.Errorf("call = %q, %v", text, err)
		}
	}
	fake.Expire()
	if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") || fake.Count("refresh") != 1 {
		t.Errorf("call after a refresh = %q, %v", text, err)
	}
}

func TestGrantsNeedNoPerson(t *testing.T) {
	assertion := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(assertion, []byte("the.jwt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var sentTo string
	secret := func(u *url.URL) (string, error) { sentTo = u.String(); return "robot-secret", nil }
	for kind, client := range map[string]signin.Client{
		"client": {ID: "robot", Secret: secret, Grant: signin.ClientCredentials},
		"jwt":    {ID: "robot", Assertion: assertion, Grant: signin.JWTBearer},
	} {
		t.Run(kind, func(t *testing.T) {
			fake := signintest.Start(t)
			s := server(t, fake)
			s.Client = client
			for i := range 2 {
				if text, err := call(t.Context(), s, "tools/list"); err != nil || !strings.Contains(text, "greet") || fake.Count(kind) != i+1 {
					t.Errorf("call = %q, %v with %d tokens, want %d", text, err, fake.Count(kind), i+1)
				}
				fake.Expire()
			}
		})
	}
	if !strings.HasSuffix(sentTo, "/token") {
		t.Errorf("the secret was asked for %q, want the token endpoint", sentTo)
	}
	fake := signintest.Start(t)
	s := server(t, fake)
	s.Client = signin.Client{ID: "robot", Grant: signin.ClientCredentials, Secret: func(*url.URL) (string, error) { return "", errors.New("not to this host") }}
	if _, err := call(t.Context(), s, "tools/list"); err == nil || !strings.Contains(err.Error(), "not to this host") || fake.Count("client") != 0 {
		t.Errorf("call = %v with %d requests, want the secret to be kept", err, fake.Count("client"))
	}
}

func TestLogoutRevokes(t *testing.T) {
	fake := signintest.Start(t)
	s := server(t, fake)
	if was, _, err := s.Logout(t.Context()); was || err != nil {
		t.Errorf("Logout without a sign-in = %v, %v", was, err)
	}
	login(t, s)
	if was, revoked, err := s.Logout(t.Context()); !was || revoked != nil || err != nil || fake.Count("revoke") != 1 {
		t.Errorf("Logout = %v, %v, %v with %d revocations", was, revoked, err, fake.Count("revoke"))
	}
	if issuer, _, err := s.State(); err != nil || issuer != "" || s.Secrets() != nil {
		t.Errorf("State = %q, %v", issuer, err)
	}
}
