package agentfile

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/cachefile"
	"github.com/agents-exe/agents/schemas"
)

// validFiles is the cache of agent files that satisfy the schema, in the folder dir,
// or nowhere for "". Comparing one takes longer than all else that happens before
// the model is asked, since the schema must be compiled first; so it is done once
// for a content. The content of a cache file is the digest of that, its key the real
// path of the agent file.
func validFiles(dir string) cachefile.Dir {
	return cachefile.Dir{Path: dir, Suffix: ".valid", Version: "agent file 2", MaxBytes: sha256.Size, MaxAge: 90 * 24 * time.Hour}
}

// digest changes with the schema and the content of an agent file.
func digest(data []byte) []byte {
	h := sha256.New()
	h.Write(schemas.Agent())
	h.Write(data)
	return h.Sum(nil)
}

// check is checkSchema, unless the content is known to satisfy the schema.
func (f *File) check(valid cachefile.Dir, unusable Severity, data []byte) (problems []Problem, ok bool) {
	sum, key := digest(data), f.Real
	if f.index > 0 {
		key += "#" + strconv.Itoa(f.index)
	}
	if known, found := valid.Load(key); found && bytes.Equal(known, sum) {
		return nil, true
	}
	problems, ok = checkSchema(f, unusable)
	if len(problems) == 0 {
		valid.Store(key, sum)
	}
	return problems, ok
}
