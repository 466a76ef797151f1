//go:build unix

package main

import (
	"strconv"
	"strings"
	"time"
)

const (
	// quietShare is how much of the processors others may use in a quiet moment.
	quietShare = 0.1
	// quietWindow is how long a moment is.
	quietWindow = 200 * time.Millisecond
)

// quiet waits for a moment in which the machine does nothing else, at most limit.
// It returns how long it waited. Where the system does not tell it does not wait.
func quiet(limit time.Duration) time.Duration {
	start := time.Now()
	for {
		before := readStat()
		time.Sleep(quietWindow)
		if busy(before, readStat()) <= quietShare || time.Since(start) >= limit {
			return time.Since(start)
		}
	}
}

func readStat() string { return firstLine("/proc/stat") }

// busy is the share of the processors that was in use between two readings of the
// first line of /proc/stat (proc(5)).
func busy(before, after string) float64 {
	idle, all := 0, 0
	b, a := strings.Fields(before), strings.Fields(after)
	for i := 1; i < min(len(a), len(b)); i++ {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		all += x - y
		if i == 4 || i == 5 { // idle, iowait
			idle += x - y
		}
	}
	if all <= 0 {
		return 0
	}
	return float64(all-idle) / float64(all)
}
