package connect

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/config"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// The metadata of an encrypted payload.
const (
	encrypted = "binary/encrypted"
	metaKey   = "encryption-key-id"
)

// A Key is a codec that encrypts payloads with AES-256-GCM. Payloads that are not encrypted
// are read as they are.
type Key struct {
	Bytes [32]byte
	id    string // of the key, which does not reveal it
	aead  cipher.AEAD
}

var _ converter.PayloadCodec = (*Key)(nil)

// ReadKey reads a key file: 64 hexadecimal digits, as `openssl rand -hex 32` writes them.
func ReadKey(path string) (*Key, error) {
	text, _, err := config.ReadRegular(path, 1<<10)
	if err != nil {
		return nil, fmt.Errorf("read the key file: %w", err)
	}
	k := &Key{}
	digits := strings.TrimSpace(string(text))
	if n, err := hex.Decode(k.Bytes[:], []byte(digits[:min(len(digits), 2*len(k.Bytes))])); err != nil || n != len(k.Bytes) || len(digits) != 2*n {
		return nil, fmt.Errorf("the key file %s does not contain a key: want 64 hexadecimal digits", path)
	}
	sum := sha256.Sum256(append([]byte("agents-fleet key id "), k.Bytes[:]...))
	k.id = hex.EncodeToString(sum[:8])
	block, err := aes.NewCipher(k.Bytes[:])
	if err == nil {
		k.aead, err = cipher.NewGCMWithRandomNonce(block)
	}
	return k, err
}

func (k *Key) Encode(payloads []*common.Payload) ([]*common.Payload, error) {
	list := make([]*common.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		list[i] = &common.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encrypted), metaKey: []byte(k.id)},
			Data:     k.aead.Seal(nil, nil, plain, []byte(k.id)),
		}
	}
	return list, nil
}

func (k *Key) Decode(payloads []*common.Payload) ([]*common.Payload, error) {
	list := make([]*common.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.Metadata[converter.MetadataEncoding]) != encrypted {
			list[i] = p
			continue
		}
		plain, err := k.open(p)
		if err != nil {
			return nil, fmt.Errorf("decrypt a payload: %w", err)
		}
		list[i] = &common.Payload{}
		if err := proto.Unmarshal(plain, list[i]); err != nil {
			return nil, fmt.Errorf("decrypt a payload: %w", err)
		}
	}
	return list, nil
}

func (k *Key) open(p *common.Payload) ([]byte, error) {
	if id := string(p.Metadata[metaKey]); id != k.id {
		return nil, fmt.Errorf("it was encrypted with the key %.16q, but the key file has %q", id, k.id)
	}
	return k.aead.Open(nil, nil, p.Data, []byte(k.id))
}
