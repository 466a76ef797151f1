// Package chromium runs a browser without a window, for tests of pages.
package chromium

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Run opens a page and returns what the browser prints: with --dump-dom, the document
// after its load event. The test is skipped if there is no browser.
func Run(t *testing.T, address string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the page is looked at in chromium, which is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	home, err := os.MkdirTemp("", "browser") // it may write to it while it ends
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	args = append(flags(home), args...)
	cmd := exec.CommandContext(ctx, path, append(args, address)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, time.Minute
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	return out.String()
}

func flags(home string) []string {
	return []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--user-data-dir=" + home}
}
