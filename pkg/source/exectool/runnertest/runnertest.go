// Package runnertest has commands that run programs elsewhere, for tests of runners: on
// another host as far as ssh knows, and in a sandbox.
package runnertest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// SSH starts sshd on a port of the loopback address, with keys of its own, and
// returns the words that run a command there as the present user. The server ends with
// the test. Where sshd or ssh is missing, the test is skipped.
func SSH(t testing.TB) []string {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd")
	}
	ssh, clientErr := exec.LookPath("ssh")
	if err != nil || clientErr != nil {
		t.Skip("sshd or ssh is not installed (openssh-server, openssh-client)")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"host", "user"} {
		run(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name))
	}
	if me.Uid == "0" {
		os.MkdirAll("/run/sshd", 0o755) // sshd of root wants it
	}
	port := serve(t, sshd, dir)
	client := []string{ssh, "-F", "none", "-o", "LogLevel=ERROR", "-p", strconv.Itoa(port), "-i", filepath.Join(dir, "user"),
		"-o", "UserKnownHostsFile=" + filepath.Join(dir, "known"), "-o", "StrictHostKeyChecking=accept-new",
		"-o", "BatchMode=yes", me.Username + "@127.0.0.1"}
	await(t, append(client, "true"))
	client = append(shared(t, client), client[1:]...)
	return client[:len(client):len(client)]
}

// shared opens a connection that later clients share, so that each of their commands
// does not need one of its own.
func shared(t testing.TB, client []string) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ssh") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	args := append([]string{"-M", "-N", "-S", socket}, client[1:]...)
	master := exec.Command(client[0], args...)
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		master.Process.Kill()
		master.Wait()
		os.RemoveAll(dir)
	})
	await(t, []string{client[0], "-S", socket, "-O", "check", client[len(client)-1]})
	return []string{client[0], "-S", socket}
}

// serve starts the server and returns its port.
func serve(t testing.TB, sshd, dir string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := filepath.Join(dir, "sshd_config")
	text := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n",
		port, filepath.Join(dir, "host"), filepath.Join(dir, "user.pub"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(sshd, "-D", "-e", "-f", config)
	var said bytes.Buffer
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", said.String())
		}
	})
	return port
}

func run(t testing.TB, line ...string) {
	t.Helper()
	if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", line, err, out)
	}
}

// await tries the command until it succeeds, for a minute.
func await(t testing.TB, line []string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %v: %s", line, err, out)
		}
	}
}

// Sandbox returns the words of what there is to run a program apart: bwrap, else
// unshare. Where neither works, the test is skipped.
func Sandbox(t testing.TB) []string {
	t.Helper()
	for _, command := range [][]string{
		{"bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent"},
		{"unshare", "--user", "--map-root-user"},
		{"unshare", "--mount"},
	} {
		if exec.Command(command[0], append(command[1:], "true")...).Run() == nil {
			t.Log(command)
			return command
		}
	}
	t.Skip("neither bwrap nor unshare works here")
	return nil
}
