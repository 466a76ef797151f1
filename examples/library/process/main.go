// Command process starts an agent in a process of its own and directs it: it watches the
// events and runs a tool that only it has. With the address of an `agents serve` it directs
// the agent butler there.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/source/remote"
)

func main() {
	ctx := context.Background()
	if len(os.Args) > 1 {
		if err := directAt(ctx, os.Args[1]); err != nil {
			log.Fatal(err)
		}
		return
	}
	err := direct(ctx, "agents", "run", "--channel", "--no-session", "--agent-file", "examples/library/process/agent.json")
	if err != nil {
		log.Fatal(err)
	}
}

// direct runs the agent that command starts. The command may begin with ssh or podman.
func direct(ctx context.Context, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdoutPipe()
	out, outErr := cmd.StdinPipe()
	if inErr != nil || outErr != nil {
		return fmt.Errorf("open the pipes: %v, %v", inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait() // the end event says how the run ended
	return hold(in, out)
}

// directAt runs the agent butler of the server at an address.
func directAt(ctx context.Context, address string) error {
	ws, err := (&remote.Server{URL: address}).Dial(ctx, "butler") // WebSocket
	if err != nil {
		return err
	}
	return hold(ws, ws)
}

// hold directs the run that reads from out and writes to in.
func hold(in io.Reader, out io.WriteCloser) error {
	run := channel.Open(in, out, agent.Start{
		Args:  json.RawMessage(`{"prompt": "It is dark."}`),
		Tools: []agent.ToolSpec{{Name: "set_lamp", Description: "Switches the lamp on or off.", Schema: json.RawMessage(`{"type": "object"}`)}},
	})
	defer run.Close() // ends the run if it has not ended
	for e, err := range run.Events() {
		switch {
		case err != nil:
			return err
		case e.Kind == agent.EventQuestion: // a server asks before calls with effects
			if err := run.Reply(e.Question, json.RawMessage(`"allow"`)); err != nil {
				return err
			}
		case e.Kind == agent.EventClientCall:
			fmt.Println("The lamp is set:", e.Args)
			if err := run.Result(e.Key, []agent.Part{agent.Text("done")}, false); err != nil {
				return err
			}
		case e.Kind == agent.EventEnd && e.Depth == 0 && e.Status != agent.StatusOK:
			return fmt.Errorf("[%s] %s", e.Status, e.Error)
		case e.Kind == agent.EventEnd && e.Depth == 0:
			fmt.Println("It answers:", e.Text)
		}
	}
	return nil
}
