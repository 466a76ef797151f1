package proof

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/connect"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/server"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/work"
	"github.com/agents-exe/agents/pkg/agentfile"
)

// The processes of the tests are this program with one of these in the variable PROOF.
const (
	proofServer = "server" // FILE ADDRESS
	proofWorker = "worker"
)

func TestMain(m *testing.M) {
	work.Sandboxed(os.Args)
	var err error
	switch os.Getenv("PROOF") {
	case proofServer:
		err = serve(os.Getenv("PROOF_FILE"), os.Getenv("PROOF_ADDRESS"))
	case proofWorker:
		err = works()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs a Temporal server until standard input ends.
func serve(file, address string) error {
	s, err := server.Start(server.Options{File: file, Address: address, LogFile: file + ".log",
		Attributes: connect.Types([]temporal.SearchAttributeKey{flow.AgentsAgent, flow.AgentsRoot, flow.AgentsOutcome, flow.AgentsCost})})
	if err != nil {
		return err
	}
	fmt.Println(s.Address)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Stop()
}

// works runs a worker until SIGTERM, or the end of standard input, which kills it.
func works() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if ctx.Err() == nil {
			die() // the test has ended
		}
	}()
	var plan killPlan
	if err := plan.read(os.Getenv("PROOF_KILL")); err != nil {
		return err
	}
	if path := os.Getenv("PROOF_POINTS"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		plan.passed = f
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: os.Getenv("PROOF_ADDRESS"), Logger: quiet{}, Interceptors: []interceptor.ClientInterceptor{&killing{plan: &plan}}})
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, os.Getenv("PROOF_STORE"))
	if err != nil {
		return err
	}
	dir := os.Getenv("PROOF_DIR")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	options := work.Options{Queue: os.Getenv("PROOF_QUEUE"), Dir: dir, Deployment: os.Getenv("PROOF_DEPLOYMENT"), BuildID: os.Getenv("PROOF_BUILD"),
		Load: agentfile.Options{Environ: os.Environ(), Folders: agentfile.Folders{Cache: filepath.Join(dir, "cache")}}, Note: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	fmt.Println("ready")
	return work.New(c, &killingStore{s, &plan}, options).Run(ctx)
}

// A killPlan kills this process when it passes a point for the nth time.
type killPlan struct {
	point  string
	n      int64
	count  atomic.Int64
	mu     sync.Mutex
	passed io.Writer // gets each point; nil drops them
}

func (p *killPlan) read(s string) (err error) {
	if s == "" {
		return nil
	}
	point, n, _ := strings.Cut(s, ":")
	p.point = point
	p.n, err = strconv.ParseInt(n, 10, 64)
	return err
}

func (p *killPlan) pass(point string) {
	if p.passed != nil {
		p.mu.Lock()
		fmt.Fprintln(p.passed, point)
		p.mu.Unlock()
	}
	if point == p.point && p.count.Add(1) == p.n {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// killing passes a point before and after each activity.
type killing struct {
	interceptor.InterceptorBase
	plan *killPlan
}

func (k *killing) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &killingActivity{plan: k.plan}
	i.Next = next
	return i
}

type killingActivity struct {
	interceptor.ActivityInboundInterceptorBase
	plan *killPlan
}

func (k *killingActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	k.plan.pass("before-activity")
	defer k.plan.pass("after-activity")
	return k.Next.ExecuteActivity(ctx, in)
}

// killingStore passes a point before and after each append.
type killingStore struct {
	store.Store
	plan *killPlan
}

func (k *killingStore) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	k.plan.pass("before-append")
	err := k.Store.Append(ctx, record, after, events)
	k.plan.pass("after-append")
	return err
}

// quiet is a logger of the SDK that drops everything.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
