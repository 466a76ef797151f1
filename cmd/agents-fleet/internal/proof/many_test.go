package proof

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of the history of a run of five turns.
const (
	mostHistory      = 200
	mostHistoryBytes = 100_000
)

// TestManyRuns queues runs of five turns and lets four workers do them.
func TestManyRuns(t *testing.T) {
	f := newFleet(t)
	folder := f.pack(agentDef{Slug: "root", Rules: []rule{calls(1, "bash_note"), calls(2, "bash_note"), calls(3, "bash_note"), calls(4, "bash_note"), says(5, "done")}})
	start := f.prompt(agent.Budget{})
	empty := f.rows()
	count := size(40, 10_000)
	if n, err := strconv.Atoi(os.Getenv("FLEET_RUNS")); err == nil {
		count = n
	}
	ids := make([]string, count)
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range next {
				ids[i] = f.submit(folder, start)
			}
		})
	}
	began := time.Now()
	for i := range count {
		next <- i
	}
	close(next)
	all.Wait()
	queued := time.Since(began)
	var workers []*process
	for range 4 {
		workers = append(workers, f.worker())
	}
	began = time.Now()
	var longest, largest, bytes, events int64
	var memory []int64 // of the workers, at each tenth of the runs
	for i, id := range ids {
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Errorf("run %s ended as %s\n%s", id, r.Status, f.story(id))
		}
		about, err := f.client.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		info := about.WorkflowExecutionInfo
		longest, largest = max(longest, info.HistoryLength), max(largest, info.HistorySizeBytes)
		bytes, events = bytes+info.HistorySizeBytes, events+info.HistoryLength
		if (i+1)%max(count/10, 1) == 0 {
			memory = append(memory, resident(workers))
			if full {
				t.Logf("%d runs after %v, workers %d MB", i+1, time.Since(began).Round(time.Second), memory[len(memory)-1]>>20)
			}
		}
	}
	took := time.Since(began)
	notes := f.notes()
	for _, id := range ids {
		if made := f.calledOnce(id, notes); made != 4 {
			t.Errorf("run %s made %d calls, want 4", id, made)
		}
	}
	if longest >= mostHistory || largest >= mostHistoryBytes {
		t.Errorf("a history has %d events and %d bytes, want less than %d and %d", longest, largest, mostHistory, mostHistoryBytes)
	}
	if early, late := memory[len(memory)/2], memory[len(memory)-1]; full && late > early*5/4 {
		t.Errorf("the workers have %d bytes at the end and had %d halfway", late, early)
	}
	t.Logf("%d runs: queued in %v, done in %v (%.1f/s); history of a run %.1f events (at most %d), %.0f bytes (at most %d); memory of the workers %v MB",
		count, queued.Round(time.Millisecond), took.Round(time.Millisecond), float64(count)/took.Seconds(), float64(events)/float64(count), longest, float64(bytes)/float64(count), largest, megabytes(memory))
	t.Logf("CPU time of a run: server %.1f ms, workers and tools %.1f ms", busy(f.server)/float64(count), busy(workers...)/float64(count))
	t.Logf("of a run: %s; store %d bytes in %d files", f.perRun(empty, count), f.stored()/int64(count), f.files()/count)
}

func megabytes(list []int64) (mb []int64) {
	for _, n := range list {
		mb = append(mb, n>>20)
	}
	return mb
}

// resident is the memory of processes, in bytes.
func resident(list []*process) (sum int64) {
	for _, p := range list {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}

// busy is the CPU time of processes and their children, in milliseconds.
func busy(list ...*process) (ms float64) {
	for _, p := range list {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if _, rest, ok := strings.Cut(string(data), ") "); ok {
			for _, field := range strings.Fields(rest)[11:15] { // utime, stime, cutime, cstime
				ticks, _ := strconv.ParseInt(field, 10, 64)
				ms += float64(ticks) * 10
			}
		}
	}
	return ms
}

// rows are those of the tables of the server's database, with the bytes of the file.
func (f *fleet) rows() map[string]int64 {
	f.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "temporal.db")+"?mode=ro")
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	names, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%fts%'")
	if err != nil {
		f.Fatal(err)
	}
	var tables []string
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			f.Fatal(err)
		}
		tables = append(tables, name)
	}
	rows := map[string]int64{}
	for _, name := range tables {
		var n int64
		if err := db.QueryRow("SELECT count(*) FROM " + name).Scan(&n); err != nil {
			f.Fatal(err)
		}
		rows[name] = n
	}
	var bytes int64
	if err := db.QueryRow("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes); err != nil {
		f.Fatal(err)
	}
	rows["bytes"] = bytes
	return rows
}

func (f *fleet) perRun(empty map[string]int64, runs int) string {
	now := f.rows()
	var sum int64
	per := map[string]float64{}
	for name, n := range now {
		if n != empty[name] {
			per[name] = float64(n-empty[name]) / float64(runs)
		}
		if name != "bytes" {
			sum += n - empty[name]
		}
	}
	data, _ := json.Marshal(per)
	return fmt.Sprintf("%.1f rows, %s", float64(sum)/float64(runs), data)
}

func (f *fleet) stored() (bytes int64) {
	f.walk(func(info fs.FileInfo) { bytes += info.Size() })
	return bytes
}

func (f *fleet) files() (n int) {
	f.walk(func(fs.FileInfo) { n++ })
	return n
}

func (f *fleet) walk(visit func(fs.FileInfo)) {
	_ = filepath.WalkDir(f.storeURL(), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				visit(info)
			}
		}
		return nil
	})
}

// TestManySubAgents has one run call sub-agents, each of which costs a thousandth of a
// dollar, within a budget.
func TestManySubAgents(t *testing.T) {
	f := newFleet(t)
	for range 2 {
		f.worker()
	}
	count := size(30, 1000)
	var list []rule
	for i := range count {
		list = append(list, rule{"tool": "expert_helper", "args": rule{"prompt": fmt.Sprintf("Help %d.", i)}})
	}
	helper := agentDef{Slug: "helper", Rules: []rule{{"answer": rule{"text": "helped", "usage": rule{"inputTokens": 10, "outputTokens": 10, "cost": 0.001}}}}}
	folder := f.pack(agentDef{Slug: "root", Rules: []rule{{"when": rule{"turn": 1}, "answer": rule{"calls": list}}, says(2, "done")}, Below: []agentDef{helper},
		Extra: rule{"maxParallelTools": 8}})
	enough := agent.Money(count) * agent.Dollar / 1000 * 2
	began := time.Now()
	id := f.submit(folder, f.prompt(agent.Budget{USD: &enough}))
	r := f.await(id)
	took := time.Since(began)
	if r.Status != string(agent.StatusOK) {
		t.Fatalf("the run ended as %s\n%s", r.Status, f.story(id))
	}
	if want := float64(count) / 1000; r.Cost < want*0.999 || r.Cost > want*1.001+0.01 {
		t.Errorf("the run cost %v, want about %v", r.Cost, want)
	}
	if ended := f.children(id); ended[agent.StatusOK] != count {
		t.Errorf("%d sub-agents: %v", count, ended)
	}
	t.Logf("%d sub-agents in %v; history of the root: %d events", count, took.Round(time.Millisecond), f.historyLength(id))

	few := agent.Money(count) * agent.Dollar / 1000 / 4
	id = f.submit(folder, f.prompt(agent.Budget{USD: &few}))
	r = f.await(id)
	// Those that are at work when nothing is left may finish their answers.
	if limit := float64(few) / float64(agent.Dollar); r.Status != string(agent.StatusBudget) || r.Cost > limit+0.001*(8+1) {
		t.Errorf("with a budget of %v the run ended as %s and cost %v", limit, r.Status, r.Cost)
	}
	t.Logf("with a quarter of it: %s, cost %v of %v, sub-agents %v", r.Status, r.Cost, float64(few)/float64(agent.Dollar), f.children(id))
}

// children counts how the sub-agents of a run ended.
func (f *fleet) children(id string) map[agent.Status]int {
	ended := map[agent.Status]int{}
	for _, e := range f.events(id) {
		if e.Kind == agent.EventEnd && e.Depth > 0 {
			ended[e.Status]++
		}
	}
	return ended
}

func (f *fleet) historyLength(id string) int64 {
	f.Helper()
	about, err := f.client.DescribeWorkflowExecution(f.Context(), id, "")
	if err != nil {
		f.Fatal(err)
	}
	return about.WorkflowExecutionInfo.HistoryLength
}

// TestOverhead measures a turn with one call on a fleet of one worker, and the same turn
// with `agents run`, without their starts.
func TestOverhead(t *testing.T) {
	f := newFleet(t)
	agents := filepath.Join(f.dir, "agents")
	if out, err := exec.Command("go", "build", "-C", "../../../..", "-o", agents, "./cmd/agents").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.worker()
	const turns = 40
	start := f.prompt(agent.Budget{})
	folders, dirs := map[int]string{}, map[int]string{}
	for _, n := range []int{1, turns + 1} {
		var rules []rule
		for i := 1; i < n; i++ {
			rules = append(rules, calls(i, "bash_note"))
		}
		def := agentDef{Slug: "root", Then: `echo "$AGENTS_CALL_ID"`, Rules: append(rules, says(n, "done")), Extra: rule{"maxTurns": 100}}
		dirs[n] = filepath.Join(f.TempDir(), "agent")
		f.write(dirs[n], def)
		folders[n] = f.pack(def)
	}
	onFleet := func(n int) time.Duration {
		id := f.submit(folders[n], start)
		if r := f.await(id); r.Status != string(agent.StatusOK) {
			t.Fatalf("the run ended as %s\n%s", r.Status, f.story(id))
		}
		about, err := f.client.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		info := about.WorkflowExecutionInfo
		return info.CloseTime.AsTime().Sub(info.StartTime.AsTime())
	}
	here := func(n int) time.Duration {
		began := time.Now()
		if out, err := exec.Command(agents, "--agent-file", filepath.Join(dirs[n], "agent.json"), "run", "--session-file", filepath.Join(f.TempDir(), "session.jsonl"), "--prompt", "Note.").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return time.Since(began)
	}
	turn := func(run func(int) time.Duration) time.Duration {
		run(1) // loads the agent
		var list []time.Duration
		for range size(3, 7) {
			list = append(list, (run(turns+1)-run(1))/turns)
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	fleet, alone := turn(onFleet), turn(here)
	t.Logf("a turn with one call: %.1f ms on a fleet, %.1f ms with agents run, %.1f ms more", ms(fleet), ms(alone), ms(fleet-alone))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
