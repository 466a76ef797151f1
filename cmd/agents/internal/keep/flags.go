package keep

import (
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/urfave/cli/v3"
)

// Flags say where the session of a run is kept, and which one goes on.
type Flags struct {
	Session string
	Last    bool
	Dir     string
	file    string
	None    bool
	record  string
}

func (k *Flags) Flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "session", Category: sessionFlags, Usage: "go on with session `ID`, or the beginning of its id; without a prompt, finish what it left unfinished", Destination: &k.Session},
		&cli.BoolFlag{Name: "continue", Category: sessionFlags, Usage: "go on with the latest session, of the agent file if one is named", Destination: &k.Last},
		&cli.StringFlag{Name: "session-file", Category: sessionFlags, Usage: "keep this session in `FILE` alone, and go on with it if it is there", Destination: &k.file},
		&cli.StringFlag{Name: "record", Category: sessionFlags, Usage: "keep the sessions of this run, and of `agents` that its tools run, in the folder `DIR`, for replay", Destination: &k.record},
	}, k.Folders()...)
}

// Folders are the flags for more than one session.
func (k *Flags) Folders() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session-dir", Category: sessionFlags, Usage: "keep sessions in the folder `DIR`, and look for them there", Destination: &k.Dir},
		&cli.BoolFlag{Name: "no-session", Category: sessionFlags, Usage: "keep nothing on disk", Destination: &k.None},
	}
}

// sessionFlags is the category of the flags in the help.
const sessionFlags = "session"

func (k *Flags) Check() error {
	switch {
	case k.record != "" && (k.None || k.Session != "" || k.Last || k.Dir != "" || k.file != ""):
		return failure.Usage("", "--record goes with no other flag about sessions")
	case k.None && (k.Session != "" || k.Last || k.Dir != "" || k.file != ""):
		return failure.Usage("", "--no-session goes with no other flag about sessions")
	case k.Session != "" && k.Last:
		return failure.Usage("", "--session and --continue exclude each other")
	case k.file != "" && (k.Session != "" || k.Last || k.Dir != ""):
		return failure.Usage("", "--session-file goes with no other flag about sessions")
	}
	return nil
}
