// Package results prints the results of tests of agents and tools.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/trial/treetest"
)

// Print writes the result of one test: as text, only failures.
func Print(p *program.Env, r treetest.Report, asJSON bool) error {
	if asJSON {
		line := struct {
			File     string             `json:"file"`
			OK       bool               `json:"ok"`
			Millis   int64              `json:"millis"`
			Failures []treetest.Failure `json:"failures,omitempty"`
			Skipped  string             `json:"skipped,omitempty"`
		}{r.File, r.OK(), r.Duration.Milliseconds(), r.Failures, r.Skipped}
		enc := json.NewEncoder(p.Out)
		enc.SetEscapeHTML(false)
		return enc.Encode(line)
	}
	if r.Skipped != "" {
		return p.PrintClean(fmt.Sprintf("not tested: %s: %s\n", r.File, r.Skipped))
	}
	if r.OK() {
		return nil
	}
	text := fmt.Sprintf("FAIL %s (%s)\n  %s\n", r.File, millis(r.Duration), strings.ReplaceAll(r.String(), "\n", "\n  "))
	return p.PrintClean(text)
}

func millis(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// Summary writes the last line and returns the error of tests that failed.
func Summary(p *program.Env, reports []treetest.Report, took time.Duration, asJSON bool) error {
	failed := 0
	for _, r := range reports {
		if !r.OK() {
			failed++
		}
	}
	line := fmt.Sprintf("ok: %d %s passed (%s)\n", len(reports), program.Plural(len(reports), "test"), millis(took))
	if failed > 0 {
		line = fmt.Sprintf("FAIL: %d of %d %s failed (%s)\n", failed, len(reports), program.Plural(len(reports), "test"), millis(took))
	}
	if !asJSON {
		if _, err := io.WriteString(p.Out, line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &failure.Error{Code: failure.ExitFailed, Err: errors.New(strings.TrimSpace(line)), Quiet: true}
	}
	return nil
}
