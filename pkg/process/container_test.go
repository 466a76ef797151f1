//go:build linux

package process

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// containers is a podman that runs containers of an image with busybox alone.
type containers struct {
	t       *testing.T
	path    string
	options []string // before the word run
	image   string
}

// newContainers skips the test where podman does not work.
func newContainers(t *testing.T) *containers {
	t.Helper()
	path, err := exec.LookPath("podman")
	if err != nil {
		t.Skip("no podman: apt-get install podman runc")
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Skip("no busybox for the image: apt-get install busybox-static")
	}
	p := &containers{t: t, path: path, image: "localhost/agents-process-test-" + strings.ToLower(rand.Text())}
	if _, err := exec.LookPath("runc"); err == nil { // crun needs more of the kernel
		p.options = []string{"--runtime", "runc"}
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/busybox", busybox, 0o755); err != nil {
		t.Fatal(err)
	}
	image, err := exec.Command("sh", "-c", `tar -C "$1" -c busybox | "$2" import - "$3"`, "sh", dir, path, p.image).CombinedOutput()
	if err != nil {
		t.Skipf("podman import: %v\n%s", err, image)
	}
	t.Cleanup(func() { exec.Command(path, "rmi", "-f", p.image).Run() })
	if out, err := exec.Command(path, p.args("true")...).CombinedOutput(); err != nil {
		t.Skipf("podman runs no container here: %v\n%s", err, out)
	}
	return p
}

// args are the arguments that run a command of busybox in a container.
func (p *containers) args(words ...string) []string {
	return slices.Concat(p.options, []string{"run", "-i", "--rm", "--network", "host",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", p.image, "/busybox"}, words)
}

func (p *containers) command(mark string) *Command {
	c := &Command{Path: p.path, Args: p.args("sh", "-c", `trap "" TERM; while :; do sleep 1; done`), Env: os.Environ(), Mark: mark, Grace: 100 * time.Millisecond}
	c.EndContainer()
	p.t.Cleanup(func() { runEnd(c.End, c.Env) })
	return c
}

// list are the containers of a command that the filters let through.
func (p *containers) list(mark string, filters ...string) []string {
	p.t.Helper()
	args := []string{"ps", "-aq", "--filter", "label=" + containerLabel + "=" + mark}
	out, err := exec.Command(p.path, append(args, filters...)...).Output()
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func (p *containers) await(mark string) {
	p.t.Helper()
	eventually(p.t, "the container", func() bool { return len(p.list(mark, "--filter", "status=running")) == 1 })
}

func TestContainersEndWithTheirCommand(t *testing.T) {
	t.Parallel()
	p := newContainers(t)
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		mark := "cancelled-" + rand.Text()
		ended := make(chan Exit)
		go func() { e, _ := Run(ctx, p.command(mark)); ended <- e }()
		p.await(mark)
		cancel()
		if e := <-ended; !e.Cancelled {
			t.Errorf("Run = %#v, want cancelled", e)
		}
		if left := p.list(mark); len(left) > 0 {
			t.Errorf("containers are left: %v", left)
		}
	})
	t.Run("client killed", func(t *testing.T) {
		mark := "killed-" + rand.Text()
		c := p.command(mark)
		server, err := Start(c)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close(t.Context())
		p.await(mark)
		syscall.Kill(server.PID(), syscall.SIGKILL)
		if e, err := server.Wait(); e.Signal != syscall.SIGKILL {
			t.Errorf("Wait = %#v, %v, want killed", e, err)
		}
		if left := p.list(mark); len(left) > 0 {
			t.Errorf("containers are left: %v", left)
		}
	})
	t.Run("parent killed", func(t *testing.T) {
		r := newRig(t)
		mark := "parent-" + rand.Text()
		cmd := r.startGuarded(guardedRun{Commands: []*Command{p.command(mark)}})
		p.await(mark)
		awaitGuardian(t, cmd.Process.Pid)
		cmd.Process.Kill()
		cmd.Wait()
		begin := time.Now()
		eventually(t, "the end of the container", func() bool { return len(p.list(mark)) == 0 })
		t.Logf("the container was gone after %s", time.Since(begin))
	})
}
