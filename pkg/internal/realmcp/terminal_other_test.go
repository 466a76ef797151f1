//go:build !linux

package realmcp

import (
	"errors"
	"os/exec"
)

// A person is not implemented on other systems.
type person struct{ answers map[string]string }

func (*person) attach(*exec.Cmd) error { return errors.New("terminals are only supported on Linux") }
func (*person) detach() string         { return "" }
