package store

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// A sealed is a Store whose content is encrypted with AES-256-GCM. Each record and each
// object has a key of its own, derived from its name, so that what is stored under another
// name cannot be read, and no key encrypts so much that random nonces could repeat. Numbers
// of events are additional data. Names of objects, which may be digests of their content,
// are replaced; names of records are visible.
type sealed struct {
	Store
	key []byte
}

// Encrypt returns s with everything encrypted, with a key of 32 bytes. Closing it closes s.
func Encrypt(s Store, key []byte) (Store, error) {
	if len(key) != 32 {
		return nil, errors.New("encrypt store: the key does not have 32 bytes")
	}
	return &sealed{s, bytes.Clone(key)}, nil
}

func (s *sealed) derive(purpose, name string) []byte {
	key, err := hkdf.Key(sha256.New, s.key, nil, purpose+" "+name, 32)
	if err != nil {
		panic(err) // its length is possible
	}
	return key
}

func (s *sealed) cipher(kind, name string) cipher.AEAD {
	block, err := aes.NewCipher(s.derive("agents-fleet "+kind, name))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// object is the name under which an object is stored.
func (s *sealed) object(name string) string {
	owner, _ := entry(kindObject, name)
	return owner + "/" + hex.EncodeToString(s.derive("agents-fleet name", name))
}

func (s *sealed) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if err := checkAppend(record, after, events); err != nil {
		return err
	}
	c := s.cipher(kindRecord, record)
	lines := make([][]byte, len(events))
	for i, e := range events {
		text := c.Seal(nil, nil, e, numberOf(after, i))
		lines[i] = strconv.AppendQuote(nil, base64.StdEncoding.EncodeToString(text))
	}
	return s.Store.Append(ctx, record, after, lines)
}

// numberOf is the number of an event behind others, as additional data.
func numberOf(after int64, i int) []byte { return strconv.AppendInt(nil, after+int64(i)+1, 10) }

func (s *sealed) Read(ctx context.Context, record string, after int64) ([][]byte, error) {
	lines, err := s.Store.Read(ctx, record, after)
	if err != nil {
		return nil, err
	}
	c := s.cipher(kindRecord, record)
	for i, line := range lines {
		text, err := base64.StdEncoding.DecodeString(string(bytes.Trim(line, `"`)))
		if err == nil {
			lines[i], err = c.Open(nil, nil, text, numberOf(after, i))
		}
		if err != nil {
			return nil, fmt.Errorf("decrypt event %s of record %s: the key is another one, or the event was changed", numberOf(after, i), record)
		}
	}
	return lines, nil
}

func (s *sealed) Put(ctx context.Context, name string, data []byte) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	return s.Store.Put(ctx, s.object(name), s.cipher(kindObject, name).Seal(nil, nil, data, nil))
}

func (s *sealed) Get(ctx context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	text, err := s.Store.Get(ctx, s.object(name))
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", name, err)
	}
	data, err := s.cipher(kindObject, name).Open(nil, nil, text, nil)
	if err != nil {
		return nil, fmt.Errorf("decrypt object %s: it was changed", name)
	}
	return data, nil
}
