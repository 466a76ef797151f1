package agentfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// An Expected is what an agent file, or the entry of a sub-agent, says of receipts and answers.
type Expected struct {
	Receipt string                `json:"receipt"`
	Accept  lazy[agent.Condition] `json:"accept"`
}

// judgeTimeout is how long a program of a condition may take, without toolTimeoutSeconds.
const judgeTimeout = 5 * time.Minute

// maxReason is how many bytes of what such a program prints are a reason.
const maxReason = 1000

// A judge is the program of a condition, as a tool whose argument is a receipt.
type judge struct {
	path    string
	cmd     process.Command
	timeout time.Duration
	verify  func() error // that it has not changed
}

// expected reads what n's own file says.
func (l *loader) expected(n *Node) {
	s := n.File.Spec
	n.Agent.Receipt = cmp.Or(s.Receipt, agent.ReceiptShort)
	n.Agent.WorkDir = absolute(n.workDir, ".")
	n.Agent.Accept = l.conditions(n, filepath.Dir(n.File.Path), s.Accept, func(i int, key string, code Code, format string, args ...any) {
		l.report(n.File.problem(n.unusable(), code, fmt.Sprintf("%s/%d/%s", n.File.at("accept"), i, key), format, args...))
	})
}

// expect returns what the entry of a sub-agent of n says; at is its place.
func (l *loader) expect(n *Node, e Expected, at Problem) agent.Expect {
	return agent.Expect{Receipt: e.Receipt, Accept: l.conditions(n, filepath.Dir(at.File), e.Accept, func(i int, key string, code Code, format string, args ...any) {
		at.Code, at.Message = code, fmt.Sprintf("accept[%d].%s: %s", i, key, fmt.Sprintf(format, args...))
		l.report(at)
	})}
}

// conditions prepares the conditions in a file in the folder dir. One that has a problem never
// holds.
func (l *loader) conditions(n *Node, dir string, list []agent.Condition, report func(i int, key string, code Code, format string, args ...any)) []agent.Condition {
	for i := range list {
		c := &list[i]
		if len(c.Schema) > 0 {
			shape, err := schema.CompileShape("schema", c.Schema)
			if c.Shape = shape; err != nil {
				report(i, "schema", CodeSchema, "%s", err)
			}
		}
		if c.Run == "" {
			continue
		}
		path := absolute(dir, c.Run)
		if err := checkExecutable(path); err != nil {
			l.further = append(l.further, path) // the next Load would use one that is created
			report(i, "run", CodeExec, "%s: %s", c.Run, plain(err))
			continue
		}
		env := toolenv.Environ(l.environ(n.File.Spec.ToolEnv), n.File.Spec.ToolEnv)
		j := &judge{path: path, timeout: cmp.Or(seconds(n.File.Spec.ToolTimeoutSeconds), judgeTimeout), cmd: process.Command{Path: path, Dir: n.workDir, Env: env}, verify: l.pin(path)}
		n.add(j)
		c.Tool = j
	}
	return list
}

func (j *judge) survey(s *surveyor, n *Node) {
	s.executed(KindProgram, j.path, s.environ(n.File.Spec.ToolEnv), n.workDir)
}

func (j *judge) files() []string { return []string{j.path} }

// open confines the program. It is no tool of a model.
func (j *judge) open(_ *loader, n *Node) []agent.Tool {
	if box := n.confinement.box(j.path, nil, false); box != nil {
		j.cmd.Sandbox = box
	}
	return nil
}

// Spec implements agent.Tool.
func (j *judge) Spec() agent.ToolSpec {
	base := filepath.Base(j.path)
	name := toolname.Join("accept", strings.TrimSuffix(base, filepath.Ext(base)))
	return agent.ToolSpec{Name: name, Description: "Says whether an answer counts.", Schema: json.RawMessage(`{"type":"object"}`), Source: j.path}
}

// In implements agent.Movable.
func (j *judge) In(dir string) agent.Tool {
	moved := *j
	moved.cmd.Dir = dir
	return &moved
}

// WorkDir implements agent.Located.
func (j *judge) WorkDir() string { return absolute(j.cmd.Dir, ".") }

// Command implements agent.Commander.
func (j *judge) Command(*agent.Invocation) (argv []string, digest string) {
	return []string{j.path}, exectool.Digest(j.path)
}

// Sandbox implements agent.Sandboxed.
func (j *judge) Sandbox() string {
	if s, ok := j.cmd.Sandbox.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Call runs the program with the arguments as standard input. The error is an *agent.Unmet with
// what it prints if it exits with another code than 0.
func (j *judge) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	if err := j.verify(); err != nil {
		return agent.Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	out, errs := &firstBytes{}, &firstBytes{}
	cmd := j.cmd
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Mark = strings.NewReader(inv.Call.Args), out, errs, inv.Key
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], inv.Environ()...)
	exit, err := process.Run(limited, &cmd)
	text := cmp.Or(out.text(), errs.text())
	switch {
	case ctx.Err() != nil:
		return agent.Result{}, agent.ContextError(ctx)
	case limited.Err() != nil:
		return agent.Result{}, fmt.Errorf("timed out after %s", j.timeout)
	case err != nil:
		return agent.Result{}, err
	case exit.Code == 0 && exit.Signal == 0:
		return agent.TextResult(text), nil
	case exit.Signal != 0 || exit.Refused != "":
		return agent.Result{}, fmt.Errorf("%s: %s", exit, cmp.Or(exit.Refused, text))
	}
	return agent.Result{}, &agent.Unmet{Reasons: []string{cmp.Or(text, fmt.Sprintf("%s: %s", filepath.Base(j.path), exit))}}
}

// firstBytes keeps the first maxReason bytes that are written.
type firstBytes struct{ bytes.Buffer }

func (b *firstBytes) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxReason-b.Len())])
	return len(p), nil
}

func (b *firstBytes) text() string {
	return strings.TrimSpace(strings.ToValidUTF8(b.String(), ""))
}

// expecting is an agent as a tool with what its caller expects of it.
type expecting struct {
	agent.Tool
	expect agent.Expect
}

func (e *expecting) Expects() agent.Expect { return e.expect }

func (e *expecting) Unwrap() any { return e.Tool }
