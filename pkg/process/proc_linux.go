package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"
)

// A stat is what /proc says about a process, see proc_pid_stat(5).
type stat struct {
	dead                   bool // a zombie, or not even that any more
	parent, group, session int
	start                  time.Duration // since boot, rounded down to a tick
}

// readStat reads the stat of a process, which may be a zombie.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat parses the one line of a stat file. The name in it is in
// parentheses and may hold anything.
func parseStat(b []byte) (stat, error) {
	const state, parent, group, session, start = 0, 1, 2, 3, 19 // counted behind the name
	_, rest, ok := bytes.Cut(b[max(0, bytes.LastIndexByte(b, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) <= start {
		return stat{}, errors.New("malformed stat file")
	}
	var n [start + 1]int
	for _, i := range []int{parent, group, session, start} {
		var err error
		if n[i], err = strconv.Atoi(string(fields[i])); err != nil {
			return stat{}, err
		}
	}
	return stat{
		dead:    fields[state][0] == 'Z' || fields[state][0] == 'X',
		parent:  n[parent],
		group:   n[group],
		session: n[session],
		start:   time.Duration(n[start]) * tick,
	}, nil
}

// members returns the members of the process group that are alive.
func (e *entry) members() []int {
	if !e.hasMembers() {
		return nil
	}
	return e.stillMembers(listProcesses())
}

func (e *entry) isMember(pid int) bool {
	st, err := readStat(pid)
	return err == nil && st.group == e.pid && !st.dead
}

// listChildren returns the children that the main thread has; orphans are
// always among them.
func (r *registry) listChildren() []int {
	r.mu.Lock()
	f := r.children
	r.mu.Unlock()
	if f == nil {
		return scanChildren()
	}
	// The kernel may skip an entry when another child ends during the
	// reading, so two readings in a row must agree.
	last := readChildren(f)
	for range 3 {
		again := readChildren(f)
		if slices.Equal(again, last) {
			break
		}
		last = union(last, again)
	}
	return last
}

// readChildren reads a children file: numbers with a space after each. When the
// list is long and changes meanwhile, a number may be a piece of another one, so
// callers check that it is a child.
func readChildren(f *os.File) []int {
	var text []byte
	buf := make([]byte, 4096)
	for {
		n, err := f.ReadAt(buf, int64(len(text)))
		text = append(text, buf[:n]...)
		if err != nil {
			break // io.EOF; with any other error nothing better can be done
		}
	}
	var pids []int
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// union returns the sorted numbers that are in a or b.
func union(a, b []int) []int {
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}

// scanChildren finds all children of this process without a children file.
func scanChildren() []int {
	self := os.Getpid()
	return slices.DeleteFunc(listProcesses(), func(pid int) bool {
		st, err := readStat(pid)
		return err != nil || st.parent != self
	})
}

func listProcesses() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
