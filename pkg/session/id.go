package session

import (
	"crypto/rand"
	"strings"
	"time"
)

// NewID makes the id of a session: the time in UTC and ten random letters and
// digits, as in "20261121-153012-k3v7q2xmd5". It is safe as a file name and sorts
// by time.
func NewID() string {
	return time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:10])
}

// ValidID reports whether id can name a session on disk: 1 to 100 letters, digits,
// "-" and "_".
func ValidID(id string) bool {
	if id == "" || len(id) > 100 {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
