package sandbox

import (
	"strconv"
	"strings"
)

// permits reports whether an entry of domains names host, which is lower case, and port.
// An entry without a port is for 80 and 443. "*." stands for one or more labels. An
// address fits no entry, however it is written.
func permits(domains []string, host, port string) bool {
	if host == "" || isNumber(host) || strings.ContainsAny(host, ":%/@\\") {
		return false
	}
	for _, d := range domains {
		name, ownPort, _ := strings.Cut(strings.ToLower(d), ":")
		if ownPort != port && (ownPort != "" || port != "80" && port != "443") {
			continue
		}
		below, wild := strings.CutPrefix(name, "*")
		if name == host || wild && strings.HasSuffix(host, below) && len(host) > len(below) {
			return true
		}
	}
	return false
}

// isNumber reports whether host is an IPv4 address as some programs read it: 127.1,
// 0x7f000001 and 2130706433 are all 127.0.0.1.
func isNumber(host string) bool {
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return err == nil
}
