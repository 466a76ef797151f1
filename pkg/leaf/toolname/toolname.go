// Package toolname makes the names under which models see tools: [Join] joins a
// prefix and a slug.
package toolname

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Max is the length of the longest name.
const Max = 64

// Join returns the name that the model sees for a tool: prefix ("bash", "expert",
// "mcp"), an underscore and slug, normalized to [A-Za-z0-9_-]{1,64}. Every
// other character becomes an underscore. A name that is too long keeps its
// beginning and ends in eight digits of a hash of the whole, so that long names
// with a common beginning stay apart. An empty prefix is left out with its
// underscore.
//
// Different slugs can have one name ("a.b" and "a b"): callers that put tools
// together must look for that.
func Join(prefix, slug string) string {
	full := slug
	if prefix != "" {
		full = prefix + "_" + slug
	}
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && isByte(byte(r)) {
			return r
		}
		return '_'
	}, full)
	if name == "" {
		return "_"
	}
	if len(name) > Max {
		sum := sha256.Sum256([]byte(full))
		name = name[:Max-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return name
}

func isByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Valid reports whether s consists of letters, digits, _ and - alone.
func Valid(s string) bool {
	for i := range len(s) {
		if !isByte(s[i]) {
			return false
		}
	}
	return s != ""
}
