package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// A cgroup is a control group of one call: a folder for each controller, which is the same
// one in version 2.
type cgroup struct {
	dirs []string
	pids string // the file with the limit on processes; "" without one
}

// cgroupFolders are the folders below which this process may create control groups with a
// limit, by controller ("memory", "pids"). One that is not there is missing.
func cgroupFolders() map[string]string {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		if fields[0] == "0" { // version 2: a folder above has the controllers for those in it
			for dir := filepath.Join(cgroupRoot, fields[2]); below(dir, cgroupRoot) && dir != cgroupRoot; dir = filepath.Dir(dir) {
				on, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
				for _, c := range strings.Fields(string(on)) {
					if folders[c] == "" && unix.Access(dir, unix.W_OK) == nil && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil {
						folders[c] = dir
					}
				}
			}
			continue
		}
		for c := range strings.SplitSeq(fields[1], ",") {
			dir := filepath.Join(cgroupRoot, c, fields[2])
			if unix.Access(dir, unix.W_OK) == nil {
				folders[c] = dir
			}
		}
	}
	return folders
}

// sweepAge is how old an empty control group is before it counts as left behind: into one
// that was just created, nothing may have been put yet.
const sweepAge = time.Minute

// removeLeft removes the control groups that killed processes left in folders, and that were
// created before a time. One in which something runs cannot be removed.
func removeLeft(folders map[string]string, before time.Time) {
	for _, dir := range folders {
		left, _ := filepath.Glob(dir + "/agents-*-*")
		for _, path := range left {
			name := strings.Split(filepath.Base(path), "-") // agents PID NANOSECONDS
			if n, err := strconv.ParseInt(name[2], 36, 64); err == nil && len(name) == 3 && n < before.UnixNano() {
				_ = os.Remove(path)
			}
		}
	}
}

// newCgroup creates a control group below folders with the limits; 0 is none.
func newCgroup(folders map[string]string, memory Bytes, processes int64) (*cgroup, error) {
	g := &cgroup{}
	name := "agents-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, limit := range []struct {
		controller string
		n          int64
		files      []string // one of them is there
	}{{"memory", int64(memory), []string{"memory.max", "memory.limit_in_bytes"}}, {"pids", processes, []string{"pids.max"}}} {
		parent := folders[limit.controller]
		if parent == "" || limit.n == 0 {
			continue
		}
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err == nil {
			g.dirs = append(g.dirs, dir)
		} else if !os.IsExist(err) {
			g.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
		if err := writeLimit(dir, limit.files, limit.n); err != nil {
			g.remove()
			return nil, err
		}
		if limit.controller == "pids" {
			g.pids = filepath.Join(dir, limit.files[0])
		}
	}
	return g, nil
}

// writeLimit writes a limit into the first of files that is there. Memory in swap counts
// too.
func writeLimit(dir string, files []string, n int64) error {
	for _, file := range files {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := os.WriteFile(path, strconv.AppendInt(nil, n, 10), 0); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)                               // version 2
		_ = os.WriteFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), strconv.AppendInt(nil, n, 10), 0) // version 1
		return nil
	}
	return fmt.Errorf("control group: %s has none of %s", dir, strings.Join(files, ", "))
}

// add puts a process into the group, and what it starts.
func (g *cgroup) add(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// remove removes the group, in which nothing runs any more.
func (g *cgroup) remove() {
	for _, dir := range g.dirs {
		for pause := time.Millisecond; pause < 200*time.Millisecond; pause *= 2 {
			if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
				break
			}
			time.Sleep(pause) // the kernel takes the dead out a moment later
		}
	}
}

// limit fills in the limits of resources, by a control group where there can be one.
func (s *session) limit() error {
	c, l := s.box.config, s.box.place.Ladder
	limits := map[int]uint64{}
	set := func(resource int, n int64) {
		if n > 0 {
			limits[resource] = uint64(n)
		}
	}
	set(unix.RLIMIT_CPU, c.CPUSeconds)
	set(unix.RLIMIT_NOFILE, c.OpenFiles)
	set(unix.RLIMIT_FSIZE, int64(c.FileSize))
	if l.cgroups["memory"] == "" {
		set(unix.RLIMIT_AS, int64(c.Memory))
	}
	if l.cgroups["pids"] == "" && c.Processes > 0 {
		n := c.Processes + helperThreads
		if !s.spacious() { // all processes of the person count
			var info unix.Sysinfo_t
			if unix.Sysinfo(&info) == nil {
				n += int64(info.Procs)
			}
		}
		set(unix.RLIMIT_NPROC, n)
	}
	s.order.Limits = limits
	if c.Memory > 0 && l.cgroups["memory"] != "" || c.Processes > 0 && l.cgroups["pids"] != "" {
		processes := c.Processes
		if processes > 0 {
			processes += helperThreads
		}
		l.sweep.Do(func() { removeLeft(l.cgroups, time.Now().Add(-sweepAge)) })
		group, err := newCgroup(l.cgroups, c.Memory, processes)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		s.group = group
	}
	return nil
}

// helperThreads is how many threads helpers may have: a limit on processes counts threads.
// Of a control group's limit the helper takes them back when it becomes the program.
const helperThreads = 24
