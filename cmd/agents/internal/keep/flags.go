package keep

import (
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/urfave/cli/v3"
)

// Flags are the flags for where the session of a run is kept and which one it continues.
type Flags struct {
	Session string
	last    bool // of this folder
	lastAny bool
	Dir     string
	file    string
	None    bool
	record  string
	Began   string // the working folder of a new session; "" is that of the process
}

func (k *Flags) Flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "session", Category: sessionFlags, Usage: "continue session `ID`, the first characters of its id or of the id's random part; without a prompt, finish an unfinished run", Destination: &k.Session},
		&cli.BoolFlag{Name: "continue", Category: sessionFlags, Usage: "continue the latest session that began in this folder; with --agent-file, the latest of that agent", Destination: &k.last},
		&cli.BoolFlag{Name: "continue-any", Category: sessionFlags, Usage: "continue the latest session of all folders; with --agent-file, the latest of that agent", Destination: &k.lastAny},
		&cli.StringFlag{Name: "session-file", Category: sessionFlags, Usage: "keep this session only in `FILE`; if the file exists, continue its session; a session file of agents-exe is imported into FILE.journal", Destination: &k.file},
		&cli.StringFlag{Name: "record", Category: sessionFlags, Usage: "for replay, keep the session of this run, and those of agents that its tools start, in the folder `DIR`", Destination: &k.record},
	}, k.Folders()...)
}

// Folders returns the flags for commands with several sessions.
func (k *Flags) Folders() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session-dir", Category: sessionFlags, Usage: "keep sessions in the folder `DIR`, and look for them there", Destination: &k.Dir},
		&cli.BoolFlag{Name: "no-session", Category: sessionFlags, Usage: "do not store the session", Destination: &k.None},
	}
}

const sessionFlags = "session"

// Continues reports whether the flags name an earlier session.
func (k *Flags) Continues() bool { return k.Session != "" || k.last || k.lastAny }

// Alone says which flag keeps one session in a place of its own, which no server does; "" if
// there is none.
func (k *Flags) Alone() string {
	switch {
	case k.record != "":
		return "--record keeps one session in its own folder"
	case k.file != "":
		return "--session-file keeps one session in its own file"
	}
	return ""
}

func (k *Flags) Check() error {
	switch others := k.Continues() || k.Dir != ""; {
	case k.record != "" && (k.None || others || k.file != ""):
		return failure.Usage("", "--record cannot be combined with other session flags")
	case k.None && (others || k.file != ""):
		return failure.Usage("", "--no-session cannot be combined with other session flags")
	case k.file != "" && others:
		return failure.Usage("", "--session-file cannot be combined with other session flags")
	case k.last && k.lastAny, k.Session != "" && (k.last || k.lastAny):
		return failure.Usage("", "--session, --continue and --continue-any exclude each other")
	}
	return nil
}
