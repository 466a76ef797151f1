// Command agents-tui is the terminal interface of `agents tui`, which starts it with a
// request in JSON as its only argument; see package tui. People do not call it. It is a
// program of its own because its libraries would add to the size and to every start of
// agents.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/tui"
)

// version is the version of the request.
const version = 2

// A request is a chat.Screen of agents.
type request struct {
	Version    int      `json:"version"`
	Program    string   `json:"program"`
	Args       []string `json:"args"`
	URL        string   `json:"url"`
	TokenFile  string   `json:"tokenFile"`
	Agent      string   `json:"agent"`
	Session    string   `json:"session"`
	Serve      []string `json:"serve"`
	SessionDir string   `json:"sessionDir"`
	Yes        bool     `json:"yes"`
	Approvals  string   `json:"approvals"` // a file
	Folder     string   `json:"folder"`
	Tree       bool     `json:"tree"`
	Pick       bool     `json:"pick"`
	Keys       string   `json:"keys"` // a file
	History    string   `json:"history"`
	Dir        string   `json:"dir"`
	Servers    string   `json:"servers"`
	Color      bool     `json:"color"`
	ASCII      bool     `json:"ascii"`
}

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		switch <-signals {
		case os.Interrupt:
			cancel(errInterrupted)
		case syscall.SIGTERM:
			cancel(errTerminated)
		}
		cancel(nil)
	}()
	err := run(ctx, os.Args[1:])
	signal.Stop(signals)
	os.Exit(report(os.Stderr, err))
}

// The errors of signals that end the program, and its exit codes then.
var (
	errInterrupted = errors.New("interrupted")
	errTerminated  = errors.New("terminated")
)

const exitInterrupted, exitTerminated = 130, 143

// report writes an error, which may be the words of another server, and returns the exit code.
func report(w io.Writer, err error) int {
	if ended, ok := errors.AsType[*tui.ServerError](err); ok {
		fmt.Fprintln(w, termtext.Clean(ended.Text)) // as agents would say it
		return ended.Code
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errTerminated):
		return exitTerminated
	}
	fmt.Fprintf(w, "error: %s\n", termtext.Clean(err.Error()))
	return 1
}

func run(ctx context.Context, args []string) error {
	var r request
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &r) != nil {
		return errors.New("agents-tui is part of `agents tui`, which calls it")
	}
	if r.Version != version {
		return fmt.Errorf("agents asks in version %d and agents-tui answers in version %d: install both again", r.Version, version)
	}
	keys, err := tui.ReadKeys(r.Keys)
	if err != nil {
		return err
	}
	o := &tui.Options{
		Program: r.Program, Args: r.Args, URL: r.URL, Dir: r.Dir, Servers: r.Servers, Agent: r.Agent, Session: r.Session, Serve: r.Serve, Pick: r.Pick,
		SessionDir: r.SessionDir, Yes: r.Yes, Approvals: tui.Approvals{File: r.Approvals, Folder: r.Folder}, Tree: r.Tree, Keys: keys, ReadToken: token, Color: r.Color, ASCII: r.ASCII, Environ: os.Environ(), In: os.Stdin, Out: os.Stdout,
	}
	if o.History, err = input.OpenHistory(r.History); err != nil {
		fmt.Fprintf(os.Stderr, "warning: what you type is not saved: %v\n", err)
	}
	if r.TokenFile != "" {
		if _, _, err := config.ReadTokens(r.TokenFile); err != nil {
			return err
		}
		o.Token = func() string { return token(r.TokenFile) }
	}
	return tui.Run(ctx, o)
}

// token returns the first token of a file; without one, the server says that it is missing.
func token(file string) string {
	list, _, err := config.ReadTokens(file) // the server warns of a file that others can read
	if err != nil || len(list) == 0 {
		return ""
	}
	return list[0].Secret.Reveal()
}
