package sinks

import (
	"errors"
	"fmt"
	"io"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
)

// Spans opens the exporter of spans to a file and to the collector that the
// environment names. Without either the observer is nil. What is wrong with the
// environment is a warning: it never keeps a run from starting.
func (s *Sinks) Spans(path string) (func(agent.Event), error) {
	env := observe.Environ{Getenv: s.P.Getenv, Warn: s.warn}
	collector, from := env.Collector()
	if path == "" && collector == "" {
		return nil, nil
	}
	opts := observe.TraceOptions{URL: collector, Resource: env.Resource("agents", s.P.Version), Version: s.P.Version}
	var file io.WriteCloser
	if path != "" {
		var err error
		if file, err = observe.OpenLog(path); err != nil {
			return nil, notOpened("--trace-file", path, err)
		}
		opts.W = file
	}
	if collector != "" {
		opts.HTTP.Header = env.Header()
	}
	t, err := observe.OpenTrace(opts)
	if err != nil {
		s.warn(fmt.Sprintf("%s: no spans are sent: %v", from, err))
		if file == nil {
			return nil, nil
		}
		opts.URL = ""
		t, _ = observe.OpenTrace(opts) // only a URL can be wrong
	}
	s.closers = append(s.closers, func() error {
		err := t.Close()
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	})
	s.Traced = true
	return t.Observe, nil
}

// panicked reports a panic in code that shows or logs the run. That part stops; the run
// continues.
func (s *Sinks) panicked(text string) {
	s.P.Warn("the run continues, but is not shown or logged in full: " + s.Hide(text))
}

func (s *Sinks) warn(text string) {
	if !s.P.Global.Quiet {
		s.P.Warn(text)
	}
}
