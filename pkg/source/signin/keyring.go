package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

// The keyring holds a random key for each file, not the tokens, because the size of an entry is
// limited (2,560 bytes on Windows). A record is encrypted with this key by AES-GCM, bound to the
// URL of the server. A key can encrypt 2³² records.

const keyringService = "agents" // the user of an entry is the path of the file

// How long the keyring may take to answer. It may ask the person for its password.
const (
	keyringWait = 3 * time.Second // in a run
	unlockWait  = time.Minute     // while a person signs in
)

// within calls f, which uses the keyring, and waits for the result. The library has no time
// limits, so f continues in the background after wait.
func within(ctx context.Context, wait time.Duration, f func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer within %s", wait))
	defer cancel()
	answers := make(chan func() (string, error), 1)
	go func() {
		text, err := f()
		answers <- func() (string, error) { return text, err }
	}()
	select {
	case answer := <-answers:
		return answer()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// fromKeyring returns the cipher for the file of s. With create, it makes a key if there is
// none; the caller must then hold the lock.
func (s *Server) fromKeyring(ctx context.Context, wait time.Duration, create bool) (*cipher.AEAD, error) {
	text, err := within(ctx, wait, func() (string, error) {
		text, err := keyring.Get(keyringService, s.path())
		if errors.Is(err, keyring.ErrNotFound) && create {
			text = rand.Text() + rand.Text() // 260 bits
			err = keyring.Set(keyringService, s.path(), text)
		}
		return text, err
	})
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(text))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	s.cipher.Store(&aead)
	return &aead, err
}

// seal returns r as it is stored: encrypted if the keyring answers, otherwise unchanged.
func (s *Server) seal(ctx context.Context, r *record, wait time.Duration) *record {
	key := s.cipher.Load()
	if key == nil && s.Keyring {
		key, _ = s.fromKeyring(ctx, wait, true)
	}
	if key == nil {
		return r
	}
	plain, _ := json.Marshal(r) // plain values
	sealed := &record{Server: r.Server, Issuer: r.Issuer, Scopes: r.Scopes, Sealed: (*key).Seal(nil, nil, plain, []byte(s.URL))}
	if r.Refresh == "" {
		sealed.Expires = r.Expires // for State
	}
	return sealed
}

func (s *Server) open(ctx context.Context, r *record, wait time.Duration) (*record, error) {
	if r == nil || r.Sealed == nil {
		return r, nil
	}
	var plain []byte
	err := errors.New("it is not available here, or turned off")
	key := s.cipher.Load()
	if key != nil {
		plain, err = (*key).Open(nil, nil, r.Sealed, []byte(s.URL))
	}
	if err != nil && s.Keyring { // another process may have made a new key
		if key, err = s.fromKeyring(ctx, wait, false); err == nil {
			plain, err = (*key).Open(nil, nil, r.Sealed, []byte(s.URL))
		}
	}
	opened := &record{}
	if err == nil {
		err = json.Unmarshal(plain, opened)
	}
	switch {
	case err != nil && s.Client.Grant != "":
		return nil, nil // new tokens can be obtained without a person
	case err != nil:
		return nil, &Required{server: s, why: fmt.Sprintf("the sign-in is encrypted, and the system's keyring does not return its key (%s)", err)}
	}
	return opened, nil
}
