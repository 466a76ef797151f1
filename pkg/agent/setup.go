package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// SetupDigest returns the digest of what a model is asked with besides the conversation.
func SetupDigest(system string, tools []ToolSpec) string {
	h := sha256.New()
	b := field(nil, system)
	for _, s := range tools {
		b = field(b, s.Name)
		b = field(b, s.Description)
		b = field(b, s.Schema)
		b = field(b, s.Effects)
		h.Write(b)
		b = b[:0]
	}
	h.Write(b)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// field adds a text with its length, so that no two lists of texts are alike.
func field[T ~string | ~[]byte](b []byte, s T) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}
