//go:build linux

package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// cgroupsIn is the variable that names where the control groups are for a test.
const cgroupsIn = "AGENTS_TEST_CGROUPS"

// hidden is a script whose process leaves its group and family and drops every mark.
const hidden = `(shed env -i RIG="$RIG" PATH="$PATH" sh -c "$SLEEPER"` + quietly + ` &); `

// onCgroups runs a test with the control groups of each version, where they can be made.
func onCgroups(t *testing.T, f func(t *testing.T)) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			root := ""
			if version == "v1" {
				root = t.TempDir()
				for _, name := range []string{"freezer", "systemd"} {
					if err := os.Symlink("/sys/fs/cgroup/"+name, filepath.Join(root, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			gs := cgroups{root: root}
			if base, v2 := cgroupBase(gs.mounted()); base == "" || v2 != (version == "v2") {
				t.Skip("this process may not make control groups of this version")
			}
			t.Setenv(cgroupsIn, root)
			was := all.cgroups.root
			all.cgroups.root = root
			defer func() { all.cgroups.root = was }()
			defer endDeadCgroups() // of the programs that a test kills
			f(t)
		})
	}
}

// TestNothingHidesFromItsControlGroup: a process without environment, session and limit of
// its call ends after SIGKILL of the program.
func TestNothingHidesFromItsControlGroup(t *testing.T) {
	onCgroups(t, func(t *testing.T) {
		t.Run("with a guardian", func(t *testing.T) {
			r := newRig(t)
			cmd := r.startGuarded(guardedRun{Commands: []*Command{r.command(hidden + `eval "$SLEEPER"`)}})
			r.awaitPids(2)
			awaitGuardian(t, cmd.Process.Pid)
			cmd.Process.Kill()
			cmd.Wait()
			r.wantAllDead(2)
			r.wantNoCgroups(cmd.Process.Pid)
		})
		t.Run("when it is resumed", func(t *testing.T) {
			r := newRig(t)
			c := r.command(hidden + `trap '' TERM; eval "$SLEEPER"`)
			cmd := r.startGuarded(guardedRun{Alone: true, Commands: []*Command{c}})
			r.awaitPids(2)
			cmd.Process.Kill()
			cmd.Wait()
			if ended, left := EndMarked(c.Mark + "2"); ended+left != 0 {
				t.Errorf("EndMarked ended %d processes of another mark and could not end %d", ended, left)
			}
			// How many it ended is not certain: the guardian of any other program ends the
			// groups of dead programs too.
			if _, left := EndLeft(c.Mark); left != 0 {
				t.Errorf("EndLeft could not end %d processes", left)
			}
			r.wantAllDead(2)
			r.wantNoCgroups(cmd.Process.Pid)
		})
		t.Run("while another command runs", func(t *testing.T) {
			older, r := newRig(t), newRig(t)
			r.startGuarded(guardedRun{Alone: true, Commands: []*Command{older.command(`eval "$SLEEPER"`), r.command(hidden + `await 1`)}})
			r.awaitPids(1)
			eventually(t, "the end of what hides", func() bool { return !alive(r.pids()[0]) })
			if !alive(older.awaitPids(1)[0]) {
				t.Error("the other command has ended")
			}
		})
	})
}

// wantNoCgroups fails the test if there are groups of a dead process.
func (r *rig) wantNoCgroups(pid int) {
	r.t.Helper()
	base, _ := cgroupBase(all.cgroups.mounted())
	eventually(r.t, "the removal of control groups", func() bool {
		dirs, _ := filepath.Glob(base + "/agents-call-*-" + strconv.Itoa(pid) + "-*")
		return len(dirs) == 0
	})
}

// TestCgroupsOfTheLivingAreLeftAlone: only what died processes of this PID namespace left is ended.
func TestCgroupsOfTheLivingAreLeftAlone(t *testing.T) {
	base := t.TempDir()
	own := cgroupName(os.Getpid())
	f := strings.Split(own, "-") // agents call SPACE PID START ""
	dead := strings.Join([]string{f[0], f[1], f[2], f[3], "1", "1"}, "-")
	for _, name := range []string{own + "1", "agents-call-" + f[2] + "0-" + f[3] + "-1-1", "other", "agents-call", "agents-call-x-1-1-1", dead} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := deadCgroups(base); len(got) != 1 || filepath.Base(got[0]) != dead {
		t.Errorf("deadCgroups = %q, want %s", got, dead)
	}
}

// TestThisProcessIsInNoneOfItsControlGroups: the thread that has started a restricted program,
// or could not, is in the group until it has ended, and the group may be ended before that.
func TestThisProcessIsInNoneOfItsControlGroups(t *testing.T) {
	onCgroups(t, func(t *testing.T) {
		base, v2 := cgroupBase(all.cgroups.mounted())
		if v2 {
			return // there, no thread is moved
		}
		g := &cgroup{dir: filepath.Join(base, cgroupName(os.Getpid())+"0"), own: base + "/tasks"}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(g.dir)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		g.enter()
		defer g.leave()
		if threads, err := os.ReadFile(g.dir + "/tasks"); err != nil || len(threads) == 0 {
			t.Fatalf("the group has the threads %q (%v), want this one", threads, err)
		}
		if pids := processesIn(g.dir); len(pids) > 0 { // they are killed
			t.Errorf("processesIn = %v, want none: this process is %d", pids, os.Getpid())
		}
	})
}

// TestGroupsInAGroupAreRemoved: a command that was killed may have made some.
func TestGroupsInAGroupAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "group")
	if err := os.MkdirAll(dir+"/agents-call-1-1-1-1/inner", 0o755); err != nil {
		t.Fatal(err)
	}
	r := registry{cgroups: cgroups{free: []*cgroup{{dir: dir}}}}
	r.removeCgroups()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the group still exists (%v)", err)
	}
}

// BenchmarkCgroup is what a control group costs a command of a main program.
func BenchmarkCgroup(b *testing.B) {
	if err := BecomeSubreaper(); err != nil {
		b.Skip(err)
	}
	old := b.TempDir()
	if err := os.Symlink("/sys/fs/cgroup/freezer", old+"/freezer"); err != nil {
		b.Fatal(err)
	}
	for _, mode := range []struct{ name, root string }{{"none", b.TempDir()}, {"v1", old}, {"v2", ""}} {
		b.Run(mode.name, func(b *testing.B) {
			all.cgroups = cgroups{root: mode.root}
			defer all.removeCgroups()
			for b.Loop() {
				benchmarkOne(b)
			}
		})
	}
}
