package main

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// containers are those of podman with an image that has no files: they use the programs
// of this machine.
type containers struct{ image, dir, program string }

// engine is podman with the runtime that needs least of the kernel.
var engine = []string{"podman", "--runtime", "runc"}

// newContainers returns containers that share the folder above dir, a folder of the test.
// Where podman does not work it says why, and returns nil.
func newContainers(t *testing.T, dir string) *containers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &containers{"localhost/agents-test-" + strings.ToLower(rand.Text()), dir, filepath.Dir(self)}
	out, err := exec.Command("sh", "-c", `tar -C "$1" -c . | podman import - "$2"`, "sh", t.TempDir(), c.image).CombinedOutput()
	t.Cleanup(func() { exec.Command("podman", "rmi", "-f", c.image).Run() })
	if err == nil {
		run := c.runner()
		out, err = exec.Command(run[0], append(run[1:], "true")...).CombinedOutput()
	}
	if err != nil {
		t.Logf("no agent runs in a container: podman: %v\n%s", err, out)
		return nil
	}
	return c
}

// runner runs a command in a container, with more options.
func (c *containers) runner(options ...string) []string {
	run := slices.Concat(engine, []string{"run", "-i", "--rm", "--pull=never", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
		"--env=PATH=" + c.dir + ":/usr/bin:/bin", "--env=XDG_CACHE_HOME=" + c.dir + "/cache", "--env=GORACE", "--volume=" + c.program + ":" + c.program + ":ro"})
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			run = append(run, "--volume="+dir+":"+dir+":ro")
		}
	}
	shared := filepath.Dir(c.dir)
	return slices.Concat(run, []string{"--volume=" + shared + ":" + shared}, options, []string{c.image})
}

// gone reports whether no container is left.
func (c *containers) gone() bool {
	out, err := exec.Command("podman", "ps", "-aq", "--filter", "ancestor="+c.image).CombinedOutput()
	return err == nil && len(out) == 0
}
