package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

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
