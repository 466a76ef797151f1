package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zalando/go-keyring"
)

// A Person shows the person the address to open, and returns the one that a browser on another
// machine was redirected to, or "" to wait for the browser of this machine. It returns soon
// after ctx ends: the browser may have been redirected first.
type Person func(ctx context.Context, address string) (redirect string, err error)

// personWait is how long a call waits for the person to sign in.
const personWait = 5 * time.Minute

// SignIn lets a person sign in after a call failed with e, unless there has been a new sign-in
// since. ask asks the person, and shows the address to open; its error means that the person
// declines.
func (e *Required) SignIn(ctx context.Context, ask func(ctx context.Context, question, address string) error) error {
	s := e.server
	ctx, cancel := context.WithTimeoutCause(ctx, personWait, fmt.Errorf("no answer within %s", personWait))
	defer cancel()
	release, err := s.lock(ctx, ".person") // other processes may ask for the same sign-in
	if err != nil {
		return err
	}
	defer release()
	if r, err := s.current(ctx, keyringWait); err == nil && r != nil && r.Access != e.refused {
		return nil
	}
	question := "The call failed: " + e.why + "."
	if e.challenge != nil && len(e.challenge.scopes) > 0 {
		question += " The server requires these rights: " + strings.Join(e.challenge.scopes, " ") + "."
	}
	return s.Login(ctx, e, nil, func(ctx context.Context, address string) (string, error) {
		return "", ask(ctx, question+" Sign in now?", address)
	})
}

// Login signs in with the help of a person and stores the tokens. need is the error of a request
// without a token, nil if there was none; scopes are requested in addition to those that the
// server names. An earlier sign-in is replaced.
func (s *Server) Login(ctx context.Context, need *Required, scopes []string, person Person) error {
	if s.Dir == "" {
		return errors.New("there is no folder for sign-ins")
	}
	old, _ := s.current(ctx, unlockWait) // one that cannot be read is replaced
	var c *challenge
	if need != nil {
		c = need.challenge
	}
	if s.Client.Grant != "" {
		_, err := s.renew(ctx, c, old)
		return err
	}
	p, err := s.discover(ctx, c)
	if err != nil {
		return err
	}
	if p.Authorization == "" || !slices.Contains(p.Challenges, "S256") {
		return fmt.Errorf("the authorization server %s does not support sign-ins with PKCE (S256)", p.Issuer)
	}
	return s.authorized(ctx, p, c, old, scopes, person)
}

// authorized sends the person to the authorization server at p and exchanges the code that
// comes back.
func (s *Server) authorized(ctx context.Context, p *place, c *challenge, old *record, scopes []string, person Person) error {
	listener, err := s.listen(ctx, old)
	if err != nil {
		return err
	}
	defer listener.Close()
	redirect := fmt.Sprintf("http://%s/callback", listener.Addr())
	r, err := s.begin(ctx, p, c, old, redirect, scopes)
	if err != nil {
		return err
	}
	state, verifier := rand.Text(), rand.Text()+rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {r.Client.ID}, "redirect_uri": {redirect}, "state": {state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	if len(r.Scopes) > 0 {
		query.Set("scope", strings.Join(r.Scopes, " "))
	}
	if r.Resource != "" {
		query.Set("resource", r.Resource)
	}
	address, err := url.Parse(p.Authorization)
	if err != nil {
		return err
	}
	for name, values := range address.Query() {
		if !query.Has(name) {
			query[name] = values
		}
	}
	address.RawQuery = query.Encode()
	code, err := receive(ctx, listener, p, state, person, address.String())
	if err != nil {
		return err
	}
	err = s.token(ctx, r, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}})
	if err != nil {
		return fmt.Errorf("exchange the code: %w", r.clean(err))
	}
	release, err := s.lock(ctx, "")
	if err != nil {
		return err
	}
	defer release()
	return s.write(ctx, r, unlockWait)
}

// listen opens the port that the browser is redirected to: the one that the client is
// registered with, if it is free.
func (s *Server) listen(ctx context.Context, old *record) (net.Listener, error) {
	var config net.ListenConfig
	if s.Client.RedirectPort == 0 && old != nil {
		if u, err := url.Parse(old.Client.Redirect); err == nil && u.Port() != "" {
			if l, err := config.Listen(ctx, "tcp", u.Host); err == nil {
				return l, nil
			}
		}
	}
	return config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.Client.RedirectPort))
}

// receive shows address and waits for the code, which the browser brings or the person pastes.
func receive(ctx context.Context, listener net.Listener, p *place, state string, person Person, address string) (string, error) {
	type redirect struct {
		query url.Values
		err   error
	}
	redirects := make(chan redirect, 1)
	web := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		query := req.URL.Query()
		if req.URL.Path != "/callback" || query.Get("state") != state { // not of this sign-in
			http.NotFound(w, req)
			return
		}
		text := "You are signed in. You can close this page."
		if _, err := p.code(query, state); err != nil {
			text = "The sign-in failed; the program shows why. You can close this page."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, text)
		select {
		case redirects <- redirect{query, nil}:
		default:
		}
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = web.Serve(listener) })
	asked, cancel := context.WithCancel(ctx)
	work.Go(func() {
		text, err := person(asked, address)
		if text != "" || err != nil {
			u, failed := url.Parse(strings.TrimSpace(text))
			if failed != nil {
				u, err = &url.URL{}, errors.New("the pasted text is not an address")
			}
			select {
			case redirects <- redirect{u.Query(), err}:
			case <-asked.Done():
			}
		}
	})
	defer func() {
		cancel()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // for the page
		defer cancel()
		_ = web.Shutdown(ctx)
		work.Wait()
	}()
	select {
	case r := <-redirects:
		if r.err != nil {
			return "", r.err
		}
		return p.code(r.query, state)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// code takes the code from the query of a redirect, after the checks of RFC 6749, 4.1.2, and
// RFC 9207.
func (p *place) code(query url.Values, state string) (string, error) {
	issuer, code := query.Get("iss"), query.Get("code")
	switch {
	case query.Get("state") != state:
		return "", errors.New("the redirect does not belong to this sign-in: paste the whole address that the browser was redirected to")
	case issuer != p.Issuer && (query.Has("iss") || p.NamesIssuer):
		return "", fmt.Errorf("the redirect comes from the authorization server %q, not from %s", issuer, p.Issuer)
	case query.Has("error"):
		return "", fmt.Errorf("the authorization server refused the sign-in: %s", strings.TrimSpace(clip(query.Get("error"))+" "+clip(query.Get("error_description"))))
	case code == "":
		return "", errors.New("the redirect has no code")
	}
	return code, nil
}

// Logout deletes the sign-in and revokes its tokens if the authorization server supports that
// (RFC 7009). was reports whether there was a sign-in; revoked is the error of the revocation.
func (s *Server) Logout(ctx context.Context) (was bool, revoked, err error) {
	release, err := s.lock(ctx, "")
	if err != nil {
		return false, nil, err
	}
	defer release()
	stored, err := s.read()
	r, revoked := s.open(ctx, stored, unlockWait)
	if r != nil && r.Revocation != "" { // with a refresh token, its access tokens end too
		at := *r
		at.TokenEndpoint = r.Revocation
		req, err := s.tokenRequest(ctx, &at, url.Values{"token": {cmp.Or(r.Refresh, r.Access)}}, "")
		if err == nil {
			_, _, _, err = s.exchange(req)
		}
		revoked = r.clean(err)
	}
	if removed := os.Remove(s.path()); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return stored != nil, revoked, removed
	}
	if stored != nil && stored.Sealed != nil && s.Keyring {
		_, _ = within(ctx, keyringWait, func() (string, error) { return "", keyring.Delete(keyringService, s.path()) })
	}
	return stored != nil, revoked, err
}
