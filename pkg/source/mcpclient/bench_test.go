package mcpclient

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkCall is the overhead of a call over standard input and output: the
// server answers at once.
func BenchmarkCall(b *testing.B) {
	for _, mode := range []string{"legacy", "modern", "library"} {
		b.Run(mode, func(b *testing.B) {
			r := newRig(b, mode)
			echo := r.tools(r.open())["echo"]
			inv := invocation(`{"text":"hello"}`)
			times := make([]time.Duration, 0, 1000)
			for b.Loop() {
				start := time.Now()
				if _, err := echo.Call(b.Context(), inv); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "µs-median")
		})
	}
}

// BenchmarkCalls64 makes 64 calls at the same time.
func BenchmarkCalls64(b *testing.B) {
	r := newRig(b, "library")
	echo := r.tools(r.open())["echo"]
	inv := invocation(`{"text":"hello"}`)
	for b.Loop() {
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if _, err := echo.Call(b.Context(), inv); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// BenchmarkStart is the time from nothing to the list of tools, and to the end.
func BenchmarkStart(b *testing.B) {
	r := newRig(b, "library")
	for b.Loop() {
		set := Open(r.server, r.opts)
		if _, err := set.Tools(b.Context()); err != nil {
			b.Fatal(err)
		}
		set.Close(b.Context())
	}
}
