// Command release makes the files of a release from the programs in a folder:
//
//	release -version v1.2.0 -time 1767225600 build/release build/dist
//
// The first folder has a folder for each platform, such as linux_amd64, with its programs,
// and the folder share with the files that go with them. The second gets an archive and a
// list of the modules in it (SPDX, see sbom.go) for each platform, files for package managers
// (see managers.go), and the checksums of everything in it. The same input makes the same bytes, so there are no times but -time.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "dev", "the version of the release")
	seconds := flag.Int64("time", 0, "when it was made, in seconds since 1970")
	flag.Parse()
	r := &release{version: strings.TrimPrefix(*version, "v"), time: time.Unix(*seconds, 0).UTC(), from: flag.Arg(0), to: flag.Arg(1)}
	if err := r.make(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

type release struct {
	version  string
	time     time.Time
	from, to string
}

type file struct {
	name string // in the archive
	mode fs.FileMode
	data []byte
}

func (r *release) make() error {
	if r.from == "" || r.to == "" {
		return errors.New("want two folders: the programs, and where the release goes")
	}
	platforms, err := filepath.Glob(filepath.Join(r.from, "*_*"))
	if err != nil || len(platforms) == 0 {
		return errors.Join(fmt.Errorf("%s has no platform", r.from), err)
	}
	for _, dir := range platforms { // sorted
		if err := r.platform(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	if err := r.managers(); err != nil {
		return err
	}
	return r.checksums()
}

// platform makes the archive and the list of modules of a platform.
func (r *release) platform(dir string) error {
	name := "agents_" + r.version + "_" + filepath.Base(dir)
	programs, err := read(dir, 0o755)
	if err != nil {
		return err
	}
	share, err := read(filepath.Join(r.from, "share"), 0o644)
	if err != nil {
		return err
	}
	write, suffix := tarGz, ".tar.gz"
	if strings.HasPrefix(filepath.Base(dir), "windows_") {
		write, suffix = zipped, ".zip"
	}
	archive, err := write(name, append(programs, share...), r.time)
	if err != nil {
		return err
	}
	list, err := r.modules(name, dir, programs)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(r.to, name+suffix), archive, 0o644),
		os.WriteFile(filepath.Join(r.to, name+".spdx.json"), list, 0o644))
}

// read returns the files in dir, in order, with one mode.
func read(dir string, mode fs.FileMode) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path) // path is in dir
		files = append(files, file{filepath.ToSlash(name), mode, data})
		return err
	})
	return files, err
}

func tarGz(folder string, files []file, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		h := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return buf.Bytes(), err
}

func zipped(folder string, files []file, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range files {
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// checksums writes SHA-256 of all files of the release, as sha256sum does.
func (r *release) checksums() error {
	path := filepath.Join(r.to, "checksums.txt")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := read(r.to, 0)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(f.data), f.name)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
