package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// The cache keeps the listing of each server in a file of its own, whose name
// follows from all that makes the server what it is:
//
//	magic | CRC-32 of the rest | JSON
//
// Whatever does not fit is as good as no cache. A listing saves a start and
// nothing more: a server that was started says itself what it has.

const (
	cacheMagic = "agents mcp listing 1 "
	// cacheAge is how long a listing counts: behind a server that is never
	// called nobody would notice that it has new tools.
	cacheAge = 24 * time.Hour
	// cacheFresh is the age at which an unchanged listing is written again.
	cacheFresh = time.Hour
	// maxCacheBytes and maxCacheFiles limit the cache.
	maxCacheBytes = 2 << 20
	maxCacheFiles = 128
	cacheSuffix   = ".listing"
)

// A cacheFile is the file of one server; "" keeps nothing.
type cacheFile string

// A savedListing is a listing as JSON. Its tools are texts: as JSON within JSON
// they would not stay byte for byte what they are.
type savedListing struct {
	Tools        []string `json:"tools"`
	Resources    bool     `json:"resources"`
	Headers      bool     `json:"headers"`
	Protocol     string   `json:"protocol"`
	Instructions string   `json:"instructions"`
}

// cache is the file of s's server.
func (s *Toolset) cache() cacheFile {
	if s.opts.CacheDir == "" {
		return ""
	}
	key, ok := s.server.identity()
	if !ok {
		return ""
	}
	// Some servers offer other tools to other clients.
	key = append(key, fmt.Sprint(s.opts.Elicit != nil, s.opts.Sample != nil))
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", key))
	return cacheFile(filepath.Join(s.opts.CacheDir, hex.EncodeToString(sum[:16])+cacheSuffix))
}

// identity is what makes the server what it is. Of the environment and the
// headers it has the names alone: their values may be secret. A server that is
// not there has none, and an address of this machine is none: it is near, and
// another server may have it tomorrow.
func (s *Server) identity() (key []string, ok bool) {
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || isLoopback(u.Hostname()) {
			return nil, false
		}
		return append([]string{s.Protocol, s.URL}, slices.Sorted(maps.Keys(s.Headers))...), true
	}
	file, err := lookPath(s)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, entry := range s.Env {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	key = append([]string{s.Protocol, s.Dir}, names...)
	key = append(append(key, s.Executable), s.Args...)
	// Interpreters get their program as an argument.
	for i, path := range append([]string{file}, s.Args...) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		info, err := os.Stat(path)
		if i == 0 && err != nil {
			return nil, false
		}
		if err == nil && info.Mode().IsRegular() {
			key = append(key, path, fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info)))
		}
	}
	return key, true
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// find is what the cache has, nil if it has nothing of use.
func (f cacheFile) find() *listing {
	text := f.read(cacheAge)
	head, body, ok := strings.Cut(text, "\n")
	if !ok || head != cacheHead(body) {
		return nil
	}
	var saved savedListing
	if json.Unmarshal([]byte(body), &saved) != nil {
		return nil
	}
	l := &listing{resources: saved.Resources, headers: saved.Headers, protocol: saved.Protocol, instructions: saved.Instructions}
	for _, tool := range saved.Tools {
		l.tools = append(l.tools, json.RawMessage(tool))
	}
	return l
}

func cacheHead(body string) string {
	return fmt.Sprintf("%s%08x", cacheMagic, crc32.ChecksumIEEE([]byte(body)))
}

// read is the content of the file if it is younger than age and nobody but this
// user can have written it.
func (f cacheFile) read(age time.Duration) string {
	if f == "" {
		return ""
	}
	file, err := os.OpenFile(string(f), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || info.Size() > maxCacheBytes {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return ""
	}
	if old := time.Since(info.ModTime()); old > age || old < -age {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(file, maxCacheBytes))
	if err != nil {
		return ""
	}
	return string(data)
}

// keep writes l, unless it is there already. A cache that cannot be written is
// done without.
func (f cacheFile) keep(l *listing) {
	if f == "" {
		return
	}
	saved := savedListing{Tools: []string{}, Resources: l.resources, Headers: l.headers, Protocol: l.protocol, Instructions: l.instructions}
	for _, tool := range l.tools {
		if !utf8.Valid(tool) {
			return
		}
		saved.Tools = append(saved.Tools, string(tool))
	}
	body, err := json.Marshal(saved)
	if err != nil {
		return
	}
	text := cacheHead(string(body)) + "\n" + string(body)
	if len(text) > maxCacheBytes {
		os.Remove(string(f)) // what it says is not true any more
		return
	}
	if f.read(cacheFresh) != text {
		f.write(text)
	}
}

// write replaces the file as a whole: a reader sees the old one or the new one.
func (f cacheFile) write(text string) {
	dir := filepath.Dir(string(f))
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	sweep(dir)
	temp, err := os.CreateTemp(dir, "*"+cacheSuffix) // 0600
	if err != nil {
		return
	}
	_, err = temp.WriteString(text)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), string(f))
	}
	if err != nil {
		os.Remove(temp.Name())
	}
}

// sweep makes room for one more file: the oldest go, and those that no longer
// count, which processes may have left that ended while they wrote.
func sweep(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type aged struct {
		path string
		at   time.Time
	}
	var files []aged
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), cacheSuffix) {
			continue
		}
		files = append(files, aged{filepath.Join(dir, e.Name()), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b aged) int { return b.at.Compare(a.at) })
	for i, file := range files {
		if i >= maxCacheFiles-1 || time.Since(file.at) > cacheAge {
			os.Remove(file.path)
		}
	}
}
