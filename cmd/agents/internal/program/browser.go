package program

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// OpenBrowser opens an address, if this machine has a browser that the person can see.
func (p *Env) OpenBrowser(ctx context.Context, address string) {
	argv := strings.Fields(p.Getenv("BROWSER"))
	switch {
	case len(argv) > 0:
	case p.Getenv("SSH_CONNECTION") != "":
		return
	case runtime.GOOS == "darwin":
		argv = []string{"open"}
	case runtime.GOOS == "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case p.Getenv("DISPLAY") != "" || p.Getenv("WAYLAND_DISPLAY") != "":
		argv = []string{"xdg-open"}
	default:
		return
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], append(argv[1:], address)...)
	if err := cmd.Start(); err != nil {
		p.Warn(fmt.Sprintf("open the browser: %s", err))
		return
	}
	go func() { _ = cmd.Wait() }() // it may stay open
}
