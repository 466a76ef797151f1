package work

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
)

// SandboxFlag, before a command line, makes the program enter a sandbox and execute that
// command line. It is internal and not documented: see Sandboxed.
const SandboxFlag = "--sandbox"

// Sandboxed enters a sandbox, if that is what args, those of the process, demand. It then
// does not return. The program calls it before anything else.
func Sandboxed(args []string) {
	if len(args) > 2 && args[1] == SandboxFlag {
		os.Exit(sandbox.Helper(args[2:]))
	}
}

// Host returns the options with which a worker of this host loads agents: its environment,
// keys, prices and caches. keysFile is as --api-keys of `agents`. The warnings are about the
// keys file. How to reach Temporal and the store, variables that begin with TEMPORAL_ and
// AGENTS_FLEET_, is not passed to tools: it may contain passwords.
func Host(env config.Env, environ []string, keysFile string) (o agentfile.Options, warnings []string, err error) {
	c, err := config.Load(env, config.Flags{Keys: keysFile})
	if err != nil {
		return o, nil, err
	}
	o.Companion = process.Companion
	o.Environ = slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return strings.HasPrefix(entry, "TEMPORAL_") || strings.HasPrefix(entry, "AGENTS_FLEET_")
	})
	cache := env.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(cache) && env.Home != "" {
		cache = filepath.Join(env.Home, ".cache")
	}
	if filepath.IsAbs(cache) {
		o.CacheDir = filepath.Join(cache, "agents")
		o.LockDir, o.OutputDir = filepath.Join(o.CacheDir, "locks"), filepath.Join(o.CacheDir, "outputs")
	}
	if dir := env.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		o.LockDir = filepath.Join(dir, "agents", "locks")
	}
	if file := c.PricesFile(); file.Found {
		text, _, err := config.ReadRegular(file.Path, prices.MaxBytes)
		if err == nil {
			o.Prices, err = prices.Parse(file.Path, text)
		}
		if err != nil {
			return o, nil, fmt.Errorf("read prices: %w", err)
		}
	}
	if keys := c.KeysFile(""); keys.Path != "" {
		o.KeysFile = keys.Path
		if o.Keys, warnings, err = config.ReadKeys(keys.Path); err != nil {
			return o, nil, fmt.Errorf("read keys (%s): %w", keys.Why, err)
		}
	}
	return o, warnings, nil
}
