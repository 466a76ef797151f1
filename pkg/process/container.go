package process

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
)

// containerLabel is the label of a container that stands for the Mark of its command, and
// startLabel the one that no other start of the command has: a run that is resumed while
// the guardian of the dead one still works has a container with the same Mark.
const (
	containerLabel = "agents.call"
	startLabel     = "agents.start"
)

// endContainers is a shell script that ends the containers with the label $1. The
// program that manages containers and its options follow. A second attempt succeeds
// where the first finds a container whose process was killed.
const endContainers = `label=$1; shift; ids=$("$@" ps -aq --filter "label=$label") && [ -n "$ids" ] || exit
"$@" kill $ids; "$@" rm -f $ids || "$@" rm -f $ids`

// EndContainer prepares a command that runs a container: `podman run …`, `docker run …`,
// or `nerdctl run …`, with any options before the word run. The container gets the
// label agents.call with the value of c.Mark, and another that c.End finds it by:
// a client that is killed leaves its container. Other commands stay as they are.
func (c *Command) EndContainer() {
	at := slices.Index(c.Args, "run")
	if c.Mark == "" || at < 0 || !slices.Contains([]string{"podman", "docker", "nerdctl"}, filepath.Base(c.Path)) {
		return
	}
	for i, arg := range c.Args[:at] {
		// A word is the value of the option before it, or the group of commands.
		if !strings.HasPrefix(arg, "-") && (i == 0 || !strings.HasPrefix(c.Args[i-1], "-")) && arg != "container" {
			return
		}
	}
	label := startLabel + "=" + rand.Text()
	options := slices.DeleteFunc(slices.Clone(c.Args[:at]), func(arg string) bool { return arg == "container" })
	c.Args = slices.Concat(c.Args[:at+1], []string{"--label", containerLabel + "=" + c.Mark, "--label", label}, c.Args[at+1:])
	c.End = slices.Concat([]string{"/bin/sh", "-c", endContainers, "sh", label, c.Path}, options)
}
