package proof

import (
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestServerKilled kills the server while runs are in progress, and starts it again on its
// file.
func TestServerKilled(t *testing.T) {
	f := newFleet(t)
	folder, start := f.pack(noting("sleep 0.1; echo noted")), f.prompt(agent.Budget{})
	for range 2 {
		f.worker()
	}
	var ids []string
	for range size(4, 40) {
		ids = append(ids, f.submit(folder, start))
	}
	kills := size(2, 10)
	for i := range kills {
		f.until("calls are made", func() bool { return len(f.notes()) > notingCalls*len(ids)*(i+1)/(kills+1) })
		f.server.kill()
		time.Sleep(300 * time.Millisecond) // the workers notice
		f.startServer()
	}
	for _, id := range ids {
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Errorf("run %s ended as %s\n%s", id, r.Status, f.story(id))
		}
		if made := f.calledOnce(id, f.notes()); made != notingCalls {
			t.Errorf("%d calls of run %s were made, want %d\n%s", made, id, notingCalls, f.story(id))
		}
	}
}
