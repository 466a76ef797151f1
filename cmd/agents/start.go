package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/prompt"
	"github.com/agents-exe/agents/cmd/agents/internal/scaffold"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
)

// start runs the program and returns its exit code.
func start(p *program.Env, args []string) int {
	p.Text, p.Agree = scaffold.Text, ask.Agree(p)
	file, isNested := nested(args)
	if isNested {
		var preparing sync.WaitGroup
		preparing.Go(channel.Prepare)
		defer preparing.Wait()
	}
	// Tools run as the same user; they must not read our memory or
	// environment. What leaves a tool's process group becomes our child.
	// Where the system has neither, tools still run.
	_ = process.HideEnviron()
	_ = process.BecomeSubreaper()
	useGuardian(p)
	defer process.EndGuardian()
	ctx, received, stop := interruptible(p)
	defer stop()
	ctx, cancel := limitByCaller(ctx, p)
	defer cancel()
	started := time.Now()
	var err error
	if isNested {
		p.Global.AgentFiles, p.Global.Color = []string{file}, "auto"
		err = runChannel(ctx, p, &runFlags{})
	} else {
		err = root(p, args...).Run(ctx, prompt.JoinPairs(args))
	}
	program.SweepOutputs(p.OutputDir(), started, time.Now())
	if out, ok := p.Out.(*failure.Stdout); ok && err == nil && out.Failed != nil {
		err = fmt.Errorf("write to standard output: %w", out.Failed)
	}
	return failure.Report(p.Err, err, received())
}

// limitByCaller ends ctx with the time of the run whose tool started this program,
// which may be less than the limit of the tool, or much more.
func limitByCaller(ctx context.Context, p *program.Env) (context.Context, context.CancelFunc) {
	text := p.Getenv(toolenv.Deadline)
	if text == "" {
		return ctx, func() {}
	}
	end, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.Warn(fmt.Sprintf("%s=%q is ignored: it is not a time such as 2006-01-02T15:04:05Z", toolenv.Deadline, text))
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, failure.CallerDeadline)
}

// interruptible is a context that ends with the first signal that asks the
// program to end. SIGPIPE is taken too, so that a reader of our output that
// goes away is an error of a write and not our death with tools still running.
func interruptible(p *program.Env) (ctx context.Context, received func() os.Signal, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var first atomic.Value
	over, unhandled := make(chan struct{}), make(chan struct{})
	p.Unhandle = func() {
		signal.Stop(signals)
		close(signals)
		select {
		case <-ctx.Done():
		case <-unhandled:
		}
	}
	go func() {
		for {
			select {
			case s, more := <-signals:
				if !more {
					close(unhandled)
					return
				}
				if take := p.Interrupt.Load(); s == syscall.SIGINT && take != nil && (*take)() {
					continue
				}
				first.Store(s)
				cancel(&failure.Ending{Text: "interrupted", Cause: context.Canceled})
				forceEnd(p, s, over)
			case <-over:
			}
			return
		}
	}()
	received = func() os.Signal {
		s, _ := first.Load().(os.Signal)
		return s
	}
	return ctx, received, func() {
		close(over)
		cancel(nil)
	}
}

// forceEnd ends a program that a signal asked to end and that does not, for example because
// it writes to a pipe that is full. Nothing else ends such a write.
func forceEnd(p *program.Env, s os.Signal, over <-chan struct{}) {
	for tick := time.Tick(p.KillAfter); ; {
		select {
		case <-over:
			return
		case <-tick:
		}
		if p.Editing.TryLock() {
			break
		}
	}
	process.EndAll()
	err := &failure.Ending{Text: fmt.Sprintf("interrupted; what was still to be done did not end within %s", p.KillAfter), Cause: context.Canceled}
	said := make(chan struct{})
	go func() { // stderr may be what nobody reads
		defer close(said)
		failure.Report(p.Err, err, s)
	}()
	select {
	case <-said:
	case <-time.After(time.Second):
	}
	os.Exit(failure.Report(io.Discard, err, s))
}
