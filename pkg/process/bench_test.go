package process

import (
	"bytes"
	"os/exec"
	"testing"
)

// BenchmarkExec is what BenchmarkRun is compared with: os/exec alone.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		var out, errs bytes.Buffer
		cmd := exec.Command("/bin/true")
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		benchmarkOne(b)
	}
}

func BenchmarkRunParallel(b *testing.B) {
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			benchmarkOne(b)
		}
	})
}

func BenchmarkExecParallel(b *testing.B) {
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var out, errs bytes.Buffer
			cmd := exec.Command("/bin/true")
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchmarkOne(b *testing.B) {
	var out, errs bytes.Buffer
	e, err := Run(b.Context(), &Command{Path: "/bin/true", Mark: "m", Stdout: &out, Stderr: &errs})
	if err != nil || e.Code != 0 {
		b.Fatal(e, err)
	}
}
