package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/internal/command"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/urfave/cli/v3"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"
)

// A listed is a line of `agents-fleet list --json`.
type listed struct {
	ID      string  `json:"id"`
	Agent   string  `json:"agent"`
	Outcome string  `json:"outcome"`
	Cost    float64 `json:"cost"`
	// Unpriced is how many model requests have no known cost.
	Unpriced int        `json:"unpriced,omitempty"`
	Started  time.Time  `json:"started"`
	Ended    *time.Time `json:"ended,omitempty"`

	cost string // for a person
}

func (f *fleet) listCommand() *cli.Command {
	asJSON, limit := false, 0
	return &cli.Command{
		Name: "list", Usage: "list runs, the newest first",
		Flags: f.flags(&cli.BoolFlag{Name: "json", Usage: "print one JSON object per line", Destination: &asJSON}, &cli.IntFlag{Name: "limit", Usage: "at most `N` runs", Value: 50, Destination: &limit}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			if err := f.open(ctx, connect.Options{}); err != nil {
				return err
			}
			runs, err := f.list(ctx, limit)
			if err != nil {
				return fmt.Errorf("list runs: %w", err)
			}
			f.prices(ctx, runs)
			table := tabwriter.NewWriter(f.Out, 0, 0, 2, ' ', 0)
			for _, r := range runs {
				if asJSON {
					err = json.NewEncoder(f.Out).Encode(r)
				} else {
					_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", termtext.Visible(r.ID), r.Started.Local().Format("2006-01-02 15:04:05"), termtext.Visible(r.Agent), termtext.Visible(r.Outcome), r.cost)
				}
				if err != nil {
					return err
				}
			}
			return table.Flush()
		},
	}
}

// list returns roots, not the runs of their sub-agents.
func (f *fleet) list(ctx context.Context, limit int) (runs []listed, err error) {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: `WorkflowType = "` + flow.Workflow + `" AND ParentWorkflowId IS NULL`}
	for {
		page, err := f.client.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, w := range page.Executions {
			if len(runs) == limit {
				return runs, nil
			}
			runs = append(runs, listedOf(w))
		}
		if request.NextPageToken = page.NextPageToken; len(request.NextPageToken) == 0 {
			return runs, nil
		}
	}
}

// prices sets what runs have cost so far, according to their records. The server knows it
// only of runs that have ended, and not whether requests are unpriced.
func (f *fleet) prices(ctx context.Context, runs []listed) {
	var all errgroup.Group
	all.SetLimit(8)
	for i := range runs {
		r := &runs[i]
		all.Go(func() error {
			total, events, err := f.consumed(ctx, r.ID)
			if err != nil || events == 0 { // it has not begun, or was pruned, or has another key
				r.cost = "unknown"
				if err == nil && (r.Ended == nil || r.Cost > 0) {
					r.cost = agent.Money(r.Cost * float64(agent.Dollar)).Text()
				}
				return nil
			}
			r.Cost, r.Unpriced = float64(total.Usage.Cost)/float64(agent.Dollar), total.Usage.Unpriced()
			r.cost = cmp.Or(total.Usage.CostText(), "$0.00")
			return nil
		})
	}
	_ = all.Wait() // it has no errors
}

// consumed adds up what a run has consumed, according to the events of its record. It does not
// read the large parts of events, each of which is an object of its own in the store.
func (f *fleet) consumed(ctx context.Context, id string) (total agent.TotalUsage, events int, err error) {
	lines, err := f.store.Read(ctx, id, 0)
	if err != nil {
		return total, 0, err
	}
	for _, line := range lines {
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return total, 0, err
		}
		if e.Kind.Lasting() {
			total.Note(&e)
		}
	}
	return total, len(lines), nil
}

func listedOf(w *workflow.WorkflowExecutionInfo) listed {
	l := listed{ID: w.Execution.WorkflowId, Started: w.StartTime.AsTime()}
	read := func(key temporal.SearchAttributeKey, to any) {
		if p := w.SearchAttributes.GetIndexedFields()[key.GetName()]; p != nil {
			_ = converter.GetDefaultDataConverter().FromPayload(p, to) // the server knows its type
		}
	}
	read(flow.AgentsAgent, &l.Agent)
	read(flow.AgentsOutcome, &l.Outcome)
	read(flow.AgentsCost, &l.Cost)
	if w.CloseTime != nil {
		ended := w.CloseTime.AsTime()
		l.Ended = &ended
	}
	if w.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING && l.Outcome == "running" { // it could not record its outcome
		l.Outcome = strings.ToLower(w.Status.String())
	}
	return l
}

func (f *fleet) pruneCommand() *cli.Command {
	older, dry := "", false
	return &cli.Command{
		Name: "prune", Usage: "remove runs that ended long ago from the store",
		Description: "Removes everything in the store that belongs to runs that ended before --older-than:\nrecords, prompts, large texts, replies and workspaces. A run whose record has no end\nstays: it may be in the queue or in progress. The folders of the agents submitted on a\nday are removed with the last run of that day. Workers may be running; the Temporal\nserver is not used.",
		Flags: append(f.storeFlags(),
			&cli.StringFlag{Name: "older-than", Required: true, Usage: "remove the runs that ended before `DATE`: 30d or 36h ago, or 2026-11-21; at least an hour ago", Destination: &older},
			&cli.BoolFlag{Name: "dry-run", Usage: "remove nothing, only print what would be removed", Destination: &dry}),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			now := time.Now()
			before, err := sessions.ParseDate(older, now)
			if err == nil && before.After(now.Add(-time.Hour)) {
				err = fmt.Errorf("it must be at least an hour ago: a worker may still be ending a later run")
			}
			if err != nil {
				return failure.Usage("", "--older-than %s: %w", older, err)
			}
			if err := f.openStore(ctx); err != nil {
				return err
			}
			return f.prune(ctx, before, dry)
		},
	}
}

// prune removes the runs that ended before a time, and prints them.
func (f *fleet) prune(ctx context.Context, before time.Time, dry bool) error {
	runs, days, failed, verb := 0, 0, 0, "removed"
	if dry {
		verb = "would remove"
	}
	for x, err := range store.ExpiredBefore(ctx, f.store, before) {
		if err == nil && !dry {
			err = f.store.Remove(ctx, x.Owner)
		}
		if err != nil && x.Owner == "" {
			return err
		}
		switch {
		case err != nil:
			failed++
			f.Warn(fmt.Sprintf("%s stays: %s", x.Owner, err))
			continue
		case x.End == nil:
			days++
			continue
		}
		runs++
		if _, err := fmt.Fprintf(f.Out, "%s  %s  %s  %s\n", termtext.Visible(x.Owner), x.End.Time.Local().Format(time.DateTime), termtext.Visible(string(x.End.Status)), termtext.Visible(x.End.Agent)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(f.Out, "%s %d %s, and the agents' folders of %d %s\n", verb, runs, program.Plural(runs, "run"), days, program.Plural(days, "day")); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d %s could not be read or removed", failed, program.Plural(failed, "run"))
	}
	return nil
}
