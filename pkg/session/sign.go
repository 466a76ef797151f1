package session

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// signatureSuffix is what the file of a signature adds to the name of its journal.
const signatureSuffix = ".sig"

// A Signature states that a session had so many lines with this chain.
type Signature struct {
	Algorithm string    `json:"algorithm"` // ed25519
	Lines     int       `json:"lines"`
	Chain     string    `json:"chain"`
	Cut       int64     `json:"cut,omitempty"` // size of the incomplete end that it had
	Time      time.Time `json:"time"`
	Signature []byte    `json:"signature"`
}

// message is what is signed.
func (s *Signature) message() []byte {
	if s.Cut > 0 {
		return fmt.Appendf(nil, "agents-session\nlines %d\nchain %s\ncut %d\ntime %s\n", s.Lines, s.Chain, s.Cut, s.Time.UTC().Format(time.RFC3339))
	}
	return fmt.Appendf(nil, "agents-session\nlines %d\nchain %s\ntime %s\n", s.Lines, s.Chain, s.Time.UTC().Format(time.RFC3339))
}

// Why a signature does not prove what is in a session.
var (
	ErrUnsigned     = errors.New("the session is not signed")
	ErrOtherKey     = errors.New("the signature was not made with this key, or was changed")
	ErrAfterSigning = errors.New("the session was changed after it was signed")
)

// Signed returns nil if the session is as it was when the owner of the key signed it.
// Otherwise the error wraps ErrUnsigned, ErrOtherKey or ErrAfterSigning.
func (v *Verification) Signed(key ed25519.PublicKey) error {
	s := v.Signature
	switch {
	case s == nil:
		return ErrUnsigned
	case !ed25519.Verify(key, s.message(), s.Signature):
		return ErrOtherKey
	}
	return v.Unsigned()
}

// Unsigned returns nil if the signature, whoever made it, is about the whole session as it
// is now. Otherwise the error wraps ErrUnsigned or ErrAfterSigning.
func (v *Verification) Unsigned() error {
	s := v.Signature
	switch {
	case s == nil:
		return ErrUnsigned
	case s.Lines != v.Lines:
		return fmt.Errorf("%w: it had %d lines and has %d", ErrAfterSigning, s.Lines, v.Lines)
	case s.Cut != v.CutBytes:
		return fmt.Errorf("%w: an incomplete line of %d bytes is at its end", ErrAfterSigning, v.CutBytes)
	case s.Chain != v.Chain:
		return ErrAfterSigning
	}
	return nil
}

// Sign signs the session at path, whose Verification is v, and stores the signature beside
// its journal. It replaces an earlier one.
func (v *Verification) Sign(path string, key ed25519.PrivateKey, now time.Time) error {
	f, _, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	s := &Signature{Algorithm: "ed25519", Lines: v.Lines, Chain: v.Chain, Cut: v.CutBytes, Time: now.UTC().Truncate(time.Second)}
	s.Signature = ed25519.Sign(key, s.message())
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var d disk
	part := f.Name() + signatureSuffix + partSuffix
	os.Remove(part) // left by a process that died
	if err := d.writeFile(part, append(text, '\n')); err != nil {
		return fmt.Errorf("sign session: %w", err)
	}
	if err := d.rename(part, f.Name()+signatureSuffix); err != nil {
		return fmt.Errorf("sign session: %w", errors.Join(err, os.Remove(part)))
	}
	v.Signature = s
	return nil
}

// readSignature reads the signature beside a journal, if there is one.
func (v *Verification) readSignature(journal string) error {
	path := journal + signatureSuffix
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && (!info.Mode().IsRegular() || info.Size() > 10_000):
		err = errors.New("it is not a signature")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	s := &Signature{}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return fmt.Errorf("read signature %s: %w", path, err)
	}
	v.Signature = s
	return nil
}

// ParseKey reads an ed25519 key in PEM, as openssl writes it: a private key (PKCS #8) or a
// public key, of which private is nil.
func ParseKey(text []byte) (public ed25519.PublicKey, private ed25519.PrivateKey, err error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil, errors.New("it is not in PEM")
	}
	var key any
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, nil, fmt.Errorf("it is a %q, not an ed25519 key", block.Type)
	}
	if err != nil {
		return nil, nil, err
	}
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return key.Public().(ed25519.PublicKey), key, nil
	case ed25519.PublicKey:
		return key, nil, nil
	}
	return nil, nil, errors.New("it is not an ed25519 key")
}
