package work

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agents-exe/agents/cmd/agents-fleet/internal/store"
)

// unpack writes the files of a compressed tar archive, a blob, into a folder.
func unpack(ctx context.Context, from store.Store, digest, dir string) error {
	data, err := store.GetBlob(ctx, from, digest)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.FromSlash(h.Name)
		if h.Typeflag == tar.TypeReg {
			if err = root.MkdirAll(filepath.Dir(name), 0o700); err == nil {
				var text []byte
				if text, err = io.ReadAll(t); err == nil {
					err = root.WriteFile(name, text, os.FileMode(h.Mode).Perm())
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}
