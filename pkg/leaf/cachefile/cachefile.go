// Package cachefile keeps what took long to find out in files that save the work
// the next time: a folder of small files, one for each key.
//
// A cache never fails. A file that is missing, too old, too large, damaged, of
// another version, or that another user can have written is ignored, and one that
// cannot be written is not kept.
//
//	d := cachefile.Dir{Path: dir, Suffix: ".listing", Version: "listing 1", MaxBytes: 1 << 20, MaxAge: 24 * time.Hour}
//	content, ok := d.Load(url)
//	d.Store(url, content)
package cachefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Dir is a folder of cache files of one kind. Several processes may use it at
// once: of two that store for one key, the last one wins.
type Dir struct {
	// Path is the folder, which Store creates; "" keeps nothing.
	Path string
	// Suffix ends the names of the files, and tells those of other kinds apart.
	Suffix string
	// Version changes with the format of the content. It holds no line break.
	Version string
	// MaxBytes limits one content.
	MaxBytes int
	// MaxFiles limits the files: the oldest are removed. 0 means no limit.
	MaxFiles int
	// MaxAge is how long a file counts, and is kept, after it was written.
	MaxAge time.Duration
}

// tempAge is how long a process may take to write a file.
const tempAge = time.Hour

const tempPrefix = "tmp-"

// File is the path of the file for key.
func (d Dir) File(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.Path, hex.EncodeToString(sum[:16])+d.Suffix)
}

// Load returns the content that was stored for key.
func (d Dir) Load(key string) (content []byte, ok bool) {
	content, age := d.load(key)
	return content, age >= 0
}

// load is Load with the age of the file, negative if there is no content.
func (d Dir) load(key string) (content []byte, age time.Duration) {
	const none = -1
	if !d.safe() {
		return nil, none
	}
	path := d.File(key)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil, none // a FIFO would block
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, none
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || foreign(info, 0o022) || info.Size() > int64(d.MaxBytes+len(d.Version)+64) {
		return nil, none
	}
	// A file of the future was written before the clock was set back.
	if age = time.Since(info.ModTime()); age.Abs() > d.MaxAge {
		return nil, none
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, none
	}
	head, content, ok := bytes.Cut(data, []byte("\n"))
	if !ok || string(head) != d.head(key, content) {
		return nil, none
	}
	return content, age.Abs()
}

// safe reports whether only this user can write to the folder.
func (d Dir) safe() bool {
	if d.Path == "" {
		return false
	}
	info, err := os.Stat(d.Path)
	return err == nil && info.IsDir() && !foreign(info, 0o002)
}

// head is the first line of a file: the version, and a checksum of key and content.
func (d Dir) head(key string, content []byte) string {
	// Castagnoli's needs tables that take longer to make than most files to read.
	sum := crc32.Update(crc32.ChecksumIEEE([]byte(key)), crc32.IEEETable, content)
	return fmt.Sprintf("%s %08x", d.Version, sum)
}

// Store replaces the content for key as a whole, unless the file holds it already
// and is young. A content over the limit removes the file.
func (d Dir) Store(key string, content []byte) {
	if d.Path == "" || os.MkdirAll(d.Path, 0o700) != nil || !d.safe() {
		return
	}
	path := d.File(key)
	if len(content) > d.MaxBytes {
		os.Remove(path)
		return
	}
	if old, age := d.load(key); age >= 0 && age < d.MaxAge/24 && bytes.Equal(old, content) {
		return
	}
	d.sweep()
	f, err := os.CreateTemp(d.Path, tempPrefix+"*"+d.Suffix) // 0600
	if err != nil {
		return
	}
	_, err = f.WriteString(d.head(key, content) + "\n")
	if err == nil {
		_, err = f.Write(content)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
}

// sweep removes the files that no longer count, those of processes that ended while
// they wrote, and the oldest, to make room for one more.
func (d Dir) sweep() {
	list, err := os.ReadDir(d.Path)
	if err != nil {
		return
	}
	var files []os.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(e.Name(), d.Suffix) {
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for i, info := range files {
		limit := d.MaxAge
		if strings.HasPrefix(info.Name(), tempPrefix) {
			limit = min(limit, tempAge)
		}
		if time.Since(info.ModTime()) > limit || d.MaxFiles > 0 && i >= d.MaxFiles-1 {
			os.Remove(filepath.Join(d.Path, info.Name()))
		}
	}
}
