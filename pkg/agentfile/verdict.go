package agentfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/schemas"
)

// Comparing an agent file with its schema takes longer than all else that happens
// before the model is asked, since the schema must be compiled first. So it is
// done once for a content: where nothing was found, a file in this folder holds
// the digest of the content. There is one for each agent file, named after its
// path.

// verdicts is the folder, or "" where nothing is kept.
type verdicts string

// verdictVersion changes with everything but the schema that the comparison
// depends on.
const verdictVersion = "agent file 1\n"

const (
	verdictSuffix = ".valid"
	// verdictShelf is how long a verdict is kept.
	verdictShelf = 90 * 24 * time.Hour
)

// check is checkSchema, unless the content is known to satisfy the schema.
func (v verdicts) check(f *File, unusable Severity, data []byte) (problems []Problem, valid bool) {
	if v.known(f.Real, data) {
		return nil, true
	}
	problems, valid = checkSchema(f, unusable)
	if valid && len(problems) == 0 {
		v.keep(f.Real, data)
	}
	return problems, valid
}

func digest(data []byte) []byte {
	h := sha256.New()
	h.Write([]byte(verdictVersion))
	h.Write(schemas.Agent())
	h.Write(data)
	return h.Sum(nil)
}

// path is the file for the agent file with a real path.
func (v verdicts) path(real string) string {
	sum := sha256.Sum256([]byte(real))
	return filepath.Join(string(v), hex.EncodeToString(sum[:16])+verdictSuffix)
}

// known reports whether the content of an agent file is known to satisfy the
// schema.
func (v verdicts) known(real string, data []byte) bool {
	if v == "" {
		return false
	}
	info, err := os.Stat(string(v))
	if err != nil || isForeign(info) {
		return false
	}
	kept, err := readRegular(v.path(real), sha256.Size)
	return err == nil && bytes.Equal(kept, digest(data))
}

// keep remembers that it does. What cannot be kept is done without.
func (v verdicts) keep(real string, data []byte) {
	if v == "" || os.MkdirAll(string(v), 0o700) != nil {
		return
	}
	v.sweep()
	f, err := os.CreateTemp(string(v), "*"+verdictSuffix) // 0600
	if err != nil {
		return
	}
	_, err = f.Write(digest(data))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), v.path(real))
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// sweep removes verdicts on files that may be gone, and files that a process left
// when it ended while it wrote.
func (v verdicts) sweep() {
	entries, err := os.ReadDir(string(v))
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), verdictSuffix) && time.Since(info.ModTime()) > verdictShelf {
			os.Remove(filepath.Join(string(v), e.Name()))
		}
	}
}

// isForeign reports whether a file belongs to somebody other than root and the
// user of this process.
func isForeign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
