// Package program holds what one start of the program finds: its streams, its
// environment, its folders, and the flags of all commands. Nothing changes it while a
// command runs.
package program

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/provider/openai"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"golang.org/x/term"
)

// An Env is the environment of one start of the program. It does not change while a
// command runs.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	InTerm   bool
	OutTerm  bool
	ErrTerm  bool
	// Controlling is the path of the controlling terminal, "" if there is none.
	Controlling string
	Getenv      func(string) string
	Version     string
	Commit      string // that the program was built from; "" if it is not known
	Environ     []string
	Servers     []LocalServer // where init looks for model servers
	Probe       time.Duration // how long all of them together have for their answers
	// Journal, if it is not nil, wraps the journal of a run: tests end the
	// process in it.
	Journal func(agent.Journal) agent.Journal

	Describing time.Duration // the limit of a tool's description; 0 is the usual one
	NameSlow   bool          // whether tools that are slow to describe themselves are named
	KillAfter  time.Duration // between a signal and the end at any price
	Editing    sync.Mutex    // held while the person's editor runs
	// Interrupt, if it is set and returns true, takes a SIGINT, which otherwise ends the
	// command.
	Interrupt atomic.Pointer[func() bool]
	// Unhandle gives signals their default effect, and returns when those that came before have
	// ended the context.
	Unhandle func()
	// Agree shows a text to the person at the terminal and asks whether to trust it; nil if
	// nobody is there.
	Agree func(ctx context.Context, text string) (bool, error)
	// Text returns the templates of agentfile.Options.
	Text func(kind, name string) string

	Global Flags
}

// Flags are the flags of all commands.
type Flags struct {
	AgentFiles []string
	Agent      string
	APIKeys    string
	Locked     bool
	LogJSON    string
	LogHTTP    string
	LogText    string
	Transcript string
	Quiet      bool
	Color      string
	// CompatNames is --compat-names of commands that load agents.
	CompatNames bool
}

// System returns the environment of this process.
func System(version, commit string) *Env {
	p := &Env{
		In: os.Stdin, Out: &failure.Stdout{Writer: os.Stdout}, Err: os.Stderr,
		InTerm:      term.IsTerminal(int(os.Stdin.Fd())),
		OutTerm:     term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerm:     term.IsTerminal(int(os.Stderr.Fd())),
		Controlling: controllingTerminal(),
		Getenv:      os.Getenv, Environ: os.Environ(), Version: version, Commit: commit, NameSlow: true,
		Servers: ModelServers, Probe: probeTime, KillAfter: 30 * time.Second,
	}
	if p.OutTerm && p.eightBit() {
		p.Out = &failure.Stdout{Writer: termtext.EightBit(os.Stdout)}
	}
	if p.ErrTerm && p.eightBit() {
		p.Err = termtext.EightBit(os.Stderr)
	}
	return p
}

// ConfigEnv returns the environment as package config wants it.
func (p *Env) ConfigEnv() (config.Env, error) {
	env, err := config.SystemEnv()
	if err != nil {
		return env, failure.NothingRan(err, "")
	}
	env.Getenv = p.Getenv
	return env, nil
}

// A LocalServer is a model server and its usual port on this machine.
type LocalServer struct {
	Flavor openai.Flavor
	Name   string
	Port   int
}

// ModelServers are the servers that init looks for.
var ModelServers = []LocalServer{
	{openai.Ollama, "Ollama", 11434},
	{openai.LlamaCpp, "llama.cpp", 8080},
	{openai.LMStudio, "LM Studio", 1234},
	{openai.VLLM, "vLLM", 8000},
}

const probeTime = 700 * time.Millisecond

// A Repeatable is the cli.Value of a flag that may be given several times: Add gets each value, in
// the order of the arguments.
type Repeatable struct{ Add func(value string) error }

func (r *Repeatable) Set(value string) error { return r.Add(value) }
func (r *Repeatable) String() string         { return "" }
func (r *Repeatable) Get() any               { return nil }
