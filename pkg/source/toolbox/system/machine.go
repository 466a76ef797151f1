package system

import (
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func date() any {
	now := time.Now()
	zone, _ := now.Zone()
	return map[string]string{"utc": now.UTC().Format(time.RFC3339Nano), "local": now.Format("2006-01-02T15:04:05.999999999"),
		"timezone": zone, "timezoneOffset": now.Format("-0700")}
}

func operatingSystem() any {
	m := map[string]string{"name": runtime.GOOS, "architecture": runtime.GOARCH}
	for _, file := range []string{"/usr/lib/os-release", "/etc/os-release"} { // the second counts
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			key := map[string]string{"NAME": "name", "VERSION": "version", "ID": "id", "VERSION_ID": "versionId", "PRETTY_NAME": "prettyName"}[name]
			if ok && key != "" {
				m[key] = strings.Trim(value, `"'`)
			}
		}
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m["kernel"] = strings.TrimSpace(string(kernel))
	}
	return m
}

// envNames tells the names alone: values may be secrets.
func envNames(o *Options) any {
	names := []string{}
	for _, entry := range o.Environ {
		if name, _, _ := strings.Cut(entry, "="); strings.Contains(name, o.EnvFilter) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return map[string]any{"names": names}
}

func runningUser() (any, error) {
	u, err := user.Current()
	if err != nil {
		return nil, err
	}
	m := map[string]any{"username": u.Username, "homeDirectory": u.HomeDir}
	for key, id := range map[string]string{"uid": u.Uid, "gid": u.Gid} {
		if n, err := strconv.Atoi(id); err == nil {
			m[key] = n
		} else {
			m[key] = id
		}
	}
	return m, nil
}

func hostname() (any, error) {
	name, err := os.Hostname()
	return map[string]string{"hostname": name}, err
}

// processInfo tells of this process and, where the system has /proc, of how many there are.
func processInfo() any {
	m := map[string]any{"pid": os.Getpid(), "ppid": os.Getppid()}
	if entries, err := os.ReadDir("/proc"); err == nil {
		n := 0
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err == nil {
				n++
			}
		}
		m["processes"] = n
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m["load"] = strings.Join(strings.Fields(string(load))[:3], " ")
	}
	return m
}

func uptime() (any, error) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return nil, fmt.Errorf("this system does not tell: %w", err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	return map[string]any{"seconds": seconds, "formatted": time.Duration(seconds * float64(time.Second)).Round(time.Second).String()}, err
}
