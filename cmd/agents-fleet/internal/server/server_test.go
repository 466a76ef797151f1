package server

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var _ log.Logger = quiet{}

func dial(t *testing.T, s *Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.Address, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A workflow that waits while the server is gone ends when another server has the file.
func TestAFileOutlivesItsServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := Options{File: filepath.Join(t.TempDir(), "fleet.db"), Attributes: map[string]enums.IndexedValueType{"Colour": enums.INDEXED_VALUE_TYPE_KEYWORD}}
	first, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	key := temporal.NewSearchAttributeKeyKeyword("Colour")
	c := dial(t, first)
	if _, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "q", TypedSearchAttributes: temporal.NewSearchAttributes(key.ValueSet("red"))}, "Wait"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	o.Address = first.Address
	second, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	if second.Address != first.Address {
		t.Errorf("the second server is at %s, the first was at %s", second.Address, first.Address)
	}
	c = dial(t, second)
	w := worker.New(c, "q", worker.Options{DeploymentOptions: worker.DeploymentOptions{
		UseVersioning: true, Version: worker.WorkerDeploymentVersion{DeploymentName: "fleet", BuildID: "1"}, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}})
	w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "done", nil }, workflow.RegisterOptions{Name: "Wait"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	deployment := c.WorkerDeploymentClient().GetHandle("fleet")
	for {
		if _, err := deployment.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: "1"}); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("worker versioning: %v", err)
		}
		time.Sleep(20 * time.Millisecond) // until the server has seen the worker
	}
	var result string
	if err := c.GetWorkflow(ctx, "w", "").Get(ctx, &result); err != nil || result != "done" {
		t.Fatalf("the workflow ends with %q, %v", result, err)
	}
	for {
		r, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: `Colour = "red" AND ExecutionStatus = "Completed"`})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Executions) == 1 {
			break
		}
		time.Sleep(20 * time.Millisecond) // until visibility has it
	}
}

func TestStartReportsWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"a port in use", Options{Address: l.Addr().String()}, "address already in use"},
		{"no address", Options{Address: "here"}, "missing port in address"},
		{"a folder that does not exist", Options{File: filepath.Join(t.TempDir(), "no", "fleet.db")}, "no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s, err := Start(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				if s != nil {
					s.Stop()
				}
				t.Errorf("Start: %v, want %q", err, tt.want)
			}
		})
	}
}
