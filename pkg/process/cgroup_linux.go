package process

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroup is a control group that holds the processes of one command at a time. A process
// cannot leave it by changing its session, environment or limits. It sets no limits itself.
type cgroup struct {
	dir string
	own string // version 1: a file that takes a thread back to the group of this process
}

// cgroups are the control groups of this process. Commands reuse them, because creating and
// removing one takes a tenth of the time of a short call.
type cgroups struct {
	root   string // where control groups are mounted; "" is /sys/fs/cgroup
	looked bool
	base   string // the group in which they are; "" if this process may make none
	v2     bool
	free   []*cgroup
	made   int
}

// cgroupBase returns the group of this process if it may create others in it, otherwise "".
func cgroupBase(root string) (dir string, v2 bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || checkProc() != nil {
		return "", false
	}
	usable := func(dir string) bool {
		return unix.Access(dir, unix.W_OK) == nil && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil
	}
	var old string
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) < 3:
		case f[0] == "0":
			for _, mount := range []string{root, root + "/unified"} {
				if dir := filepath.Join(mount, f[2]); isCgroup2(mount) && usable(dir) {
					return dir, true
				}
			}
		case f[1] == "freezer", f[1] == "name=systemd" && old == "": // which limit nothing
			if dir := filepath.Join(root, strings.TrimPrefix(f[1], "name="), f[2]); usable(dir) && unix.Access(dir+"/tasks", unix.W_OK) == nil {
				old = dir
			}
		}
	}
	return old, false
}

func isCgroup2(mount string) bool {
	var st unix.Statfs_t
	return unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// cgroupName returns the prefix of the names of a process's control groups. It is unique: it
// contains the PID namespace, the number and the start time of the process.
func cgroupName(pid int) string {
	space, err := os.Readlink("/proc/self/ns/pid")
	st, statErr := readStat(pid)
	if err != nil || statErr != nil {
		return ""
	}
	return fmt.Sprintf("agents-call-%s-%d-%d-", strings.Trim(space, "pid:[]"), pid, st.start/tick)
}

// takeCgroup returns a control group for a command, nil if there can be none. Without
// BecomeSubreaper there is none: this is not the main program.
func (r *registry) takeCgroup() *cgroup {
	if !r.subreaper.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gs := &r.cgroups
	if !gs.looked {
		gs.looked = true
		gs.base, gs.v2 = cgroupBase(gs.mounted())
		removeEmpty(gs.base)
	}
	if n := len(gs.free); n > 0 {
		g := gs.free[n-1]
		gs.free = gs.free[:n-1]
		return g
	}
	name := cgroupName(os.Getpid())
	if gs.base == "" || name == "" {
		return nil
	}
	gs.made++
	g := &cgroup{dir: filepath.Join(gs.base, name+strconv.Itoa(gs.made))}
	if !gs.v2 {
		g.own = gs.base + "/tasks"
	}
	if os.Mkdir(g.dir, 0o755) != nil {
		gs.base = ""
		return nil
	}
	return g
}

// maxFreeCgroups is how many groups are kept for later commands.
const maxFreeCgroups = 8

// mounted returns the folder where control groups are mounted.
func (gs *cgroups) mounted() string { return cmp.Or(gs.root, "/sys/fs/cgroup") }

// attr makes a process start in a group of version 2, until done is called.
func (g *cgroup) attr(sys *syscall.SysProcAttr) (done func()) {
	if g == nil || g.own != "" {
		return func() {}
	}
	folder, err := os.Open(g.dir)
	if err != nil {
		return func() {}
	}
	sys.UseCgroupFD, sys.CgroupFD = true, int(folder.Fd())
	return func() { folder.Close() }
}

// withoutCgroup changes the attributes of a process that could not be started: the next
// attempt is without a group. It reports whether there was one.
func withoutCgroup(sys *syscall.SysProcAttr) bool {
	was := sys.UseCgroupFD
	sys.UseCgroupFD = false
	return was
}

// enter puts the calling thread, and what it starts, into a group of version 1.
func (g *cgroup) enter() {
	if g != nil && g.own != "" {
		_ = os.WriteFile(g.dir+"/tasks", []byte("0"), 0) // after an error, the marks remain
	}
}

// leave returns the calling thread to the group of this process.
func (g *cgroup) leave() {
	if g != nil && g.own != "" {
		_ = os.WriteFile(g.own, []byte("0"), 0)
	}
}

// endCgroup ends what is still in the group of e, whose other processes have ended, and
// keeps the group for another command.
func (r *registry) endCgroup(e *entry) (ended, alive int) {
	g := e.cgroup
	if g == nil {
		return 0, 0
	}
	e.cgroup = nil
	if len(processesIn(g.dir)) > 0 {
		var killed map[int]*entry
		killed, alive = endIn(g.dir, e)
		ended = max(0, len(killed)-alive)
		r.sweeping.Lock() // they are children of this process by now, or soon
		s := &sweep{registry: r, ended: e, tried: map[int]bool{}, owners: killed}
		s.run()
		r.sweeping.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if alive == 0 && len(r.cgroups.free) < maxFreeCgroups {
		r.cgroups.free = append(r.cgroups.free, g)
	} else {
		removeGroup(g.dir)
	}
	return ended, alive
}

// removeCgroups removes the groups that are not in use.
func (r *registry) removeCgroups() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.cgroups.free {
		removeGroup(g.dir) // it may have those of a program like this one that was killed
	}
	r.cgroups.free = nil
}

// processesIn returns the processes in a group and in those below it, except this process, of
// which a thread that has started a command may still be there while it ends.
func processesIn(dir string) (pids []int) {
	text, _ := os.ReadFile(dir + "/cgroup.procs")
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() { // 0 is in another PID namespace
			pids = append(pids, pid)
		}
	}
	for _, sub := range groupsIn(dir) {
		pids = append(pids, processesIn(sub)...)
	}
	return pids
}

// groupsIn returns the direct subgroups of a group.
func groupsIn(dir string) (dirs []string) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || st.Nlink == 2 { // it has none
		return nil
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// killFrozen kills all processes in a group at one moment, so that none can start another one
// meanwhile: chains of processes that fork and exit run away from a loop. A group with a
// thread of this process is left alone.
func killFrozen(dir string) {
	text, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil || slices.Contains(strings.Fields(string(text)), strconv.Itoa(os.Getpid())) {
		return
	}
	if os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) == nil { // version 2
		return
	}
	state := dir + "/freezer.state" // version 1
	if os.WriteFile(state, []byte("FROZEN"), 0) != nil {
		return
	}
	for begin := time.Now(); time.Since(begin) < sweepLimit; time.Sleep(minPause) {
		if text, err := os.ReadFile(state); err != nil || strings.TrimSpace(string(text)) == "FROZEN" {
			break
		}
	}
	for _, pid := range processesIn(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it cannot end before, and its number stays its own
	}
	_ = os.WriteFile(state, []byte("THAWED"), 0)
}

// endIn kills the processes in a group until there are none, and removes its subgroups.
// Guardians are given time to end by themselves. killed maps the processes to owner; alive is
// how many could not be killed.
func endIn(dir string, owner *entry) (killed map[int]*entry, alive int) {
	killed = map[int]*entry{}
	pause, rounds := minPause, 0
	for begin := time.Now(); ; {
		waiting := false
		pids := processesIn(dir)
		for _, pid := range pids {
			if limitCode(pid) == guardianCode && time.Since(begin) < guardianLimit {
				waiting = true
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil || !slices.Contains(processesIn(dir), pid) { // it ended
				continue
			}
			_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
			unix.Close(fd)
			killed[pid] = owner
		}
		if rounds++; rounds > 2 && !waiting {
			killFrozen(dir)
		}
		if len(pids) == 0 || !waiting && time.Since(begin) > sweepLimit {
			for _, sub := range slices.Backward(groupsIn(dir)) {
				removeGroup(sub)
			}
			return killed, len(pids)
		}
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

// removeGroup removes a group without processes, and those in it.
func removeGroup(dir string) {
	for _, sub := range groupsIn(dir) {
		removeGroup(sub)
	}
	_ = os.Remove(dir)
}

// deadCgroups returns the groups that processes have left which are dead now.
func deadCgroups(base string) (dirs []string) {
	here := cgroupName(os.Getpid())
	dead := map[string]bool{} // by owner: each keeps several groups
	for _, dir := range groupsIn(base) {
		name := filepath.Base(dir)
		f := strings.Split(name, "-")
		if len(f) != 6 || !strings.HasPrefix(here, strings.Join(f[:3], "-")+"-") { // of another PID namespace
			continue
		}
		pid, err := strconv.Atoi(f[3])
		if err != nil {
			continue
		}
		owner := strings.TrimSuffix(name, f[5])
		if _, known := dead[owner]; !known {
			st, err := readStat(pid)
			dead[owner] = err != nil || st.dead || cgroupName(pid) != owner
		}
		if dead[owner] {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// removeEmpty removes the groups of dead processes in which nothing is alive.
func removeEmpty(base string) {
	for _, dir := range deadCgroups(base) {
		removeGroup(dir)
	}
}

// endDeadCgroups ends the processes in groups whose owners have died. It searches below the
// highest group that this process may change.
func endDeadCgroups() (ended, alive int) {
	root := all.cgroups.mounted()
	base, _ := cgroupBase(root)
	for up := filepath.Dir(base); len(up) > len(root) && unix.Access(up, unix.W_OK) == nil; up = filepath.Dir(up) {
		base = up
	}
	var search func(dir string, depth int)
	search = func(dir string, depth int) {
		for _, dead := range deadCgroups(dir) {
			killed, a := endIn(dead, nil)
			ended, alive = ended+max(0, len(killed)-a), alive+a
			removeGroup(dead)
		}
		for _, sub := range groupsIn(dir) {
			if depth > 0 {
				search(sub, depth-1)
			}
		}
	}
	if base != "" {
		search(base, maxCgroupDepth)
	}
	return ended, alive
}

// maxCgroupDepth is how deep below that one they are looked for.
const maxCgroupDepth = 8
