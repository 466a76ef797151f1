package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/cachefile"
	"github.com/agents-exe/agents/pkg/process"
	"golang.org/x/sys/unix"
)

var rungs = []string{Namespaces, Bubblewrap, Landlock, Limits}

// facts is what a rung depends on and costs nothing to find out.
type facts struct {
	mu     sync.Mutex
	spaces map[string]*spaces // by their order

	landlock int // its version, 0 for none
	inside   bool
	root     bool
	cgroups  map[string]string
	sweep    sync.Once // of cgroups
	key      string    // of this kernel and what contains this process
}

func (f *facts) find() {
	f.landlock, f.root = landlockVersion(), os.Geteuid() == 0
	if runtime.GOOS == "linux" {
		f.cgroups = cgroupFolders()
	}
	status, _ := os.ReadFile("/proc/thread-self/status")
	// Both are what a sandbox leaves behind, of ours or of another program: namespaces
	// cannot be made there, and what is there already holds.
	f.inside = strings.Contains(string(status), "\nNoNewPrivs:\t1\n") && strings.Contains(string(status), "\nSeccomp:\t2\n")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var name unix.Utsname
	_ = unix.Uname(&name)
	user, _ := os.Readlink("/proc/self/ns/user")
	mount, _ := os.Readlink("/proc/self/ns/mnt")
	f.key = fmt.Sprint(unix.ByteSliceToString(name.Release[:]), strings.TrimSpace(string(boot)), os.Geteuid(), user, mount, f.inside)
}

// failureAge is how long the cache keeps that namespaces do not work.
const failureAge = 5 * time.Minute

// load returns why rungs do not work, from the cache or by trying.
func (l *Ladder) load() map[string]string {
	works := cachefile.Dir{Path: l.CacheDir, Suffix: ".ladder", Version: "2", MaxBytes: 1 << 16, MaxFiles: 16, MaxAge: 30 * 24 * time.Hour}
	fails := works
	fails.Suffix, fails.MaxAge = ".failed", failureAge
	key := l.key + os.TempDir() + strings.Join(l.Helper, " ")
	for _, cache := range []cachefile.Dir{works, fails} {
		var why map[string]string
		if l.CacheDir == "" {
			break
		}
		if data, ok := cache.Load(key); ok && json.Unmarshal(data, &why) == nil && why != nil {
			return why
		}
	}
	why := map[string]string{}
	for _, r := range []string{Namespaces, Bubblewrap} {
		if err := l.try(r); err != nil {
			why[r] = err.Error()
		}
	}
	if l.landlock == 0 || !hasFilter {
		why[Landlock] = "the kernel has no Landlock, or this processor no filter"
	}
	cache := works
	if why[Namespaces] != "" { // something that passes may be the cause: a full disk, too many processes
		cache = fails
	}
	if data, err := json.Marshal(why); l.CacheDir != "" && err == nil {
		cache.Store(key, data)
	}
	return why
}

// try enters a sandbox on a rung.
func (l *Ladder) try(rung string) error {
	switch {
	case l.inside:
		return errors.New("this process is in a sandbox, which can only be narrowed")
	case len(l.Helper) == 0:
		return errors.New("there is no helper")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer l.Close() // no other call is in these namespaces
	b := &Box{place: Place{Ladder: l}, config: Config{Read: []string{"/"}, Write: []string{}, Network: &Network{}}}
	command := &process.Command{Path: l.Helper[0], Args: append(slices.Clone(l.Helper[1:]), helperTry), Sandbox: trial{b, rung}}
	e, err := process.Run(ctx, command)
	if err != nil {
		return err
	}
	if e.Code != 0 {
		return errors.New(e.String())
	}
	return nil
}

// A trial is a sandbox on a rung that may not work.
type trial struct {
	box  *Box
	rung string
}

// Confine implements process.Sandbox.
func (t trial) Confine(c *process.Command) (*process.Confined, error) {
	return t.box.confine(c, t.rung)
}

func lookBwrap() (string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return "", errors.New("there is no bwrap in PATH")
	}
	return path, nil
}

// The versions of Landlock since which a file cannot be emptied without a right
// (Linux 6.2), and processes outside cannot be signaled (6.12).
const landlockTruncate, landlockSignals = 3, 6

// enforcers are what enforces each restriction on a rung.
func (b *Box) enforcers(rung string) map[string]string {
	l := b.place.Ladder
	l.find()
	c := b.config
	spaces := rung == Namespaces || rung == Bubblewrap
	when := func(ok bool, by string) string {
		if ok {
			return by
		}
		return ""
	}
	landlock := when(l.landlock > 0 && rung != Limits, "Landlock")
	both := landlock
	if spaces && landlock != "" {
		both = "mounts and Landlock"
	}
	wide := slices.Equal(c.Read, []string{"/"}) // only secrets are hidden
	network := ""
	switch domains := c.Network != nil && len(c.Network.Domains) > 0; {
	case spaces && domains:
		network = "a network namespace and a proxy"
	case spaces:
		network = "a network namespace"
	case !domains: // the port of a proxy says nothing about the host that has it
		network = when(hasFilter && rung == Landlock, "seccomp")
	}
	return map[string]string{
		"read":        when(landlock != "" || spaces && wide, cmp.Or(both, "mounts")),
		"write":       when(l.landlock >= landlockTruncate && rung != Limits || spaces, cmp.Or(both, "mounts")),
		"network":     network,
		"memory":      cmp.Or(when(l.cgroups["memory"] != "", "a control group"), "a limit of address space"),
		"processes":   cmp.Or(when(l.cgroups["pids"] != "", "a control group"), when(!l.root, "a limit")), // root has none
		"cpuSeconds":  "a limit",
		"openFiles":   "a limit",
		"fileSize":    "a limit",
		"environment": "the start",
		// Landlock permits whole folders, with all that is in them.
		"protected files": when(spaces, "mounts"),
		"signals":         cmp.Or(when(spaces, "a PID namespace"), when(l.landlock >= landlockSignals && rung != Limits, "Landlock")),
	}
}
