package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// PrivateTemp returns the folder that has the private temporary folders of this user's
// calls. It creates it if need be.
func PrivateTemp() (string, error) {
	parent := os.TempDir()
	if real, err := filepath.EvalSymlinks(parent); err == nil {
		parent = real
	}
	dir := filepath.Join(parent, "agents-tmp-"+strconv.Itoa(os.Getuid()))
	_ = os.Mkdir(dir, 0o700)
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a folder")
	}
	if err == nil {
		err = os.Chmod(dir, 0o700) // which fails if it is another user's
	}
	if err != nil {
		return "", fmt.Errorf("the folder for temporary files %s: %w", dir, err)
	}
	return dir, nil
}
