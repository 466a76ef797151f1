package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Run is one that a client of a server may connect to: with its Session in the start
// message.
type Run struct {
	Session string `json:"session"`
	Agent   string `json:"agent"`            // its slug
	Prompt  string `json:"prompt,omitempty"` // the first line of it
	// State is RunGoing, RunAsks, or the status with which the run has ended.
	State   string    `json:"state"`
	Started time.Time `json:"started"`
	// Held means that a client is connected.
	Held bool `json:"held,omitempty"`
	// Question is the first that waits for a reply: an event of kind question.
	Question *agent.Event `json:"question,omitempty"`
	// Cost is that of the requests with a price; Unpriced is how many have none.
	Cost     agent.Money `json:"cost"`
	Unpriced int         `json:"unpriced,omitempty"`
}

// The states of a Run that has not ended.
const (
	RunGoing = "running"
	RunAsks  = "question" // it waits for a reply
)

// Runs asks the server for its runs, the newest first.
func (s *Server) Runs(ctx context.Context) ([]Run, error) {
	for list, err := range s.runs(ctx, "") {
		return list, err
	}
	return nil, io.ErrUnexpectedEOF
}

// FollowRuns yields the runs of the server, and again when one has changed. The last pair
// has an error, io.EOF if the server has ended. A server that ends when it is idle does not
// end while it is followed.
func (s *Server) FollowRuns(ctx context.Context) iter.Seq2[[]Run, error] {
	return s.runs(ctx, "?follow=true")
}

func (s *Server) runs(ctx context.Context, query string) iter.Seq2[[]Run, error] {
	return func(yield func([]Run, error) bool) {
		body, err := s.get(ctx, "v1/runs", query)
		if err != nil {
			yield(nil, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxListing)
		for lines.Scan() {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue // it shows that the server is there
			}
			var list struct{ Runs []Run }
			if err := json.Unmarshal(lines.Bytes(), &list); err != nil {
				yield(nil, fmt.Errorf("read the list of runs: %w", err))
				return
			}
			if !yield(list.Runs, nil) {
				return
			}
		}
		if err = lines.Err(); err == nil {
			err = io.EOF
		}
		yield(nil, err)
	}
}
