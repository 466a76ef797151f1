//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// peakMemory returns the largest resident set of one `--version`, in bytes. A
// child starts on the memory of the process that starts it, and the kernel counts
// that as the child's own: the result is exact only when it is larger than this
// process has ever been, which is why it is measured before anything else.
func peakMemory(binary string) (bytes int64, exact bool, err error) {
	cmd := exec.Command(binary, "--version")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, false, fmt.Errorf("%s --version: %w: %s", binary, err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, false, nil
	}
	bytes = int64(usage.Maxrss)
	if runtime.GOOS != "darwin" {
		bytes *= 1024
	}
	return bytes, bytes > ownPeak(), nil
}

// ownPeak is the largest resident set of this process, in bytes.
func ownPeak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb * 1024
		}
	}
	return 0
}

// A timing sums up the wall times of several starts, in milliseconds. The best
// quarter is the time that a quarter of the starts stayed under: of the two it is
// the one that a busy machine disturbs less.
type timing struct{ median, quarter float64 }

// coldStart starts `binary --version` and a program that does nothing in turn, so
// that whatever else the machine does falls on both.
func coldStart(tmp, binary string, runs int) (cold, floor timing, err error) {
	hello, err := buildHello(tmp)
	if err != nil {
		return cold, floor, err
	}
	// A file fresh from the linker starts slower than its copy.
	agents := filepath.Join(tmp, "agents")
	if err := copyFile(agents, binary); err != nil {
		return cold, floor, err
	}
	var times [2][]float64
	for range runs {
		for i, name := range []string{agents, hello} {
			start := time.Now()
			if err := exec.Command(name, "--version").Run(); err != nil {
				return cold, floor, fmt.Errorf("%s --version: %w", name, err)
			}
			times[i] = append(times[i], time.Since(start).Seconds()*1000)
		}
	}
	return sumUp(times[0]), sumUp(times[1]), nil
}

func sumUp(times []float64) timing {
	if len(times) == 0 {
		return timing{}
	}
	slices.Sort(times)
	return timing{median: times[len(times)/2], quarter: times[len(times)/4]}
}

// buildHello builds the program that does nothing.
func buildHello(tmp string) (string, error) {
	source := filepath.Join(tmp, "hello.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"hello\") }\n"), 0o644); err != nil {
		return "", err
	}
	linked, hello := filepath.Join(tmp, "hello.linked"), filepath.Join(tmp, "hello")
	if _, _, err := goRun("build", "-trimpath", "-ldflags=-s -w", "-o", linked, source); err != nil {
		return "", err
	}
	return hello, copyFile(hello, linked)
}

func copyFile(dst, src string) error {
	text, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, text, 0o755)
}

// An initCost is what one package did before main.
type initCost struct {
	pkg    string
	ms     float64
	allocs int
}

func (c initCost) ours() bool { return c.pkg == "main" || strings.HasPrefix(c.pkg, module+"/") }

// initCosts asks the runtime of the binary what its packages did before main.
func initCosts(binary string) ([]initCost, error) {
	cmd := exec.Command(binary, "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s --version: %w: %s", binary, err, &stderr)
	}
	costs := parseInits(stderr.String())
	if len(costs) == 0 {
		return nil, fmt.Errorf("%s --version: no init traces on standard error", binary)
	}
	return costs, nil
}

// parseInits reads lines like "init os @0.61 ms, 0.028 ms clock, 432 bytes, 9 allocs".
func parseInits(trace string) []initCost {
	var costs []initCost
	for line := range strings.Lines(trace) {
		var c initCost
		var at float64
		var bytes int
		n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &c.pkg, &at, &c.ms, &bytes, &c.allocs)
		if n == 5 {
			costs = append(costs, c)
		}
	}
	return costs
}

// longest returns the n costs with the longest time.
func longest(costs []initCost, n int) []initCost {
	sorted := slices.SortedStableFunc(slices.Values(costs), func(a, b initCost) int {
		switch {
		case a.ms > b.ms:
			return -1
		case a.ms < b.ms:
			return 1
		}
		return 0
	})
	return sorted[:min(n, len(sorted))]
}
