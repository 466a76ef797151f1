package process

import (
	"errors"
	"os"
)

func own(os.FileInfo) bool { return true } // the folder is in the user's profile

func lockFolder(string) (*os.File, error) { return nil, errors.ErrUnsupported }
