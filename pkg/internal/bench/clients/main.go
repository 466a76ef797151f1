// Command clients connects many clients to a server of agents at once, over WebSocket in
// one process, and prints how long pieces of answers take from the model to the clients.
//
//	clients -n 1000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/runner"
)

// An answer has so many pieces, one at each interval.
const (
	pieces   = 20
	interval = 100 * time.Millisecond
)

func main() {
	n := flag.Int("n", 1000, "how many clients there are")
	flag.Parse()
	if err := clients(*n); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func clients(n int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := serve.New(serve.Options{Host: host{}, Runs: n})
	served := make(chan error, 1)
	go func() { served <- server.ServeListener(ctx, l) }()
	times := make([][]time.Duration, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() { times[i], errs[i] = client(ctx, l.Addr().String()) })
	}
	wg.Wait()
	took := time.Since(start)
	cancel()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	fmt.Printf("%.2f ms at the 99th percentile, %.2f ms in the median, of %d pieces to %d clients in %.1f s\n", at(0.99), at(0.5), len(all), n, took.Seconds())
	<-served // the listener is closed
	return nil
}

// client runs the agent once and returns how long each piece took.
func client(ctx context.Context, addr string) (times []time.Duration, err error) {
	c, err := wsconn.Dial(ctx, "ws://"+addr+"/v1/agents/talker/channel", wsconn.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Abort()
	if err := c.Send(ctx, []byte(`{"kind":"start","channel":1,"args":{"prompt":"talk"}}`)); err != nil {
		return nil, err
	}
	for {
		text, err := c.Receive(ctx)
		now := time.Now()
		if err != nil {
			return nil, err
		}
		var e agent.Event
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, err
		}
		switch e.Kind {
		case agent.EventText:
			sent, err := strconv.ParseInt(e.Text, 10, 64)
			if err != nil {
				return nil, err
			}
			times = append(times, now.Sub(time.Unix(0, sent)))
		case agent.EventEnd:
			if e.Status != agent.StatusOK || len(times) != pieces {
				return nil, fmt.Errorf("a run ended with %s %s after %d pieces", e.Status, e.Error, len(times))
			}
			return times, c.Close()
		}
	}
}

// A host has one agent, whose model says the time.
type host struct{}

func (host) Agents() []agent.ToolSpec { return []agent.ToolSpec{{Name: "talker"}} }

func (host) Start(ctx context.Context, slug string, s agent.Start) (*runner.Channel, error) {
	return (&runner.Runner{Agent: &agent.Agent{Slug: slug, Provider: clock{}}}).Start(ctx, s), nil
}

type clock struct{}

func (clock) Generate(ctx context.Context, _ *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range pieces {
		select {
		case <-tick.C:
			delta(agent.Delta{Kind: agent.DeltaText, Text: strconv.FormatInt(time.Now().UnixNano(), 10)})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return &agent.Response{Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}, Finish: agent.FinishStop}, nil
}
