//go:build !(linux || darwin || freebsd)

package system

import "errors"

func disk(string) (any, error) { return nil, errors.ErrUnsupported }
