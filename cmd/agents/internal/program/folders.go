package program

import (
	"os"
	"path/filepath"
	"runtime"
)

// StateDir is the folder for sessions and other state, "" if there is no home folder.
func (p *Env) StateDir() string {
	home := p.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(home) {
		h, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(h) {
			return ""
		}
		home = filepath.Join(h, ".local", "state")
	}
	return filepath.Join(home, "agents")
}

// ApprovalsFile is the file with the calls that the person has allowed for later runs, ""
// if there is no home folder.
func (p *Env) ApprovalsFile() string {
	return in(p.StateDir(), "approvals.json")
}

// SignInDir is the folder with the sign-ins to MCP servers, "" if there is no home folder.
func (p *Env) SignInDir() string {
	return in(p.StateDir(), "mcp")
}

// EnvKeyring is the variable whose value "off" turns the use of the system's keyring off.
const EnvKeyring = "AGENTS_KEYRING"

// Keyring reports whether the system's keyring may be used. On Linux it is reached through the
// session's D-Bus.
func (p *Env) Keyring() bool {
	return p.Getenv(EnvKeyring) != "off" &&
		(runtime.GOOS == "darwin" || runtime.GOOS == "windows" || p.Getenv("DBUS_SESSION_BUS_ADDRESS") != "")
}

// CacheDir is the folder for descriptions of tools, "" if there is none.
func (p *Env) CacheDir() string {
	dir := p.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "agents")
}

// LockDir is the folder for locks of tools, the same for all programs of this user.
func (p *Env) LockDir() string {
	if dir := p.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agents", "locks")
	}
	return in(p.CacheDir(), "locks")
}

// in returns dir/name, "" if there is no dir.
func in(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}
