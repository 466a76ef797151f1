package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// A Description is the output of `describe`; see docs/tools.md.
type Description struct {
	Slug        string            `json:"slug"`
	Description string            `json:"description"`
	Args        []DescribedArg    `json:"args"`
	Empty       *DescribedMessage `json:"empty-result,omitempty"`
	MediaType   string            `json:"output-media-type,omitempty"`
	Effects     agent.Effects     `json:"effects,omitempty"`
	Locks       []string          `json:"locks,omitempty"`
	Task        string            `json:"task,omitempty"`
	Timeout     float64           `json:"timeout-seconds,omitempty"`
	Deadline    float64           `json:"deadline-seconds,omitempty"`
	Channel     int               `json:"channel,omitempty"`
	Input       json.RawMessage   `json:"input-schema,omitempty"`
	Examples    []json.RawMessage `json:"examples,omitempty"`
}

type DescribedArg struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Type        string          `json:"type"`
	Backing     string          `json:"backing_type"`
	Arity       string          `json:"arity"`
	Mode        string          `json:"mode"`
	AllowDash   bool            `json:"allow_dash,omitempty"`
	Enum        json.RawMessage `json:"enum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Items       json.RawMessage `json:"items,omitempty"`
}

type DescribedMessage struct {
	Tag      string `json:"tag"`
	Contents string `json:"contents"`
}

// OpenTool describes the executable at path. Its description is never cached: the
// author of the tool is changing it.
func OpenTool(ctx context.Context, p *program.Env, path string) (*exectool.Tool, error) {
	set, err := exectool.Open(ctx, []exectool.Source{{Path: path}}, exectool.Options{Environ: p.Environ, DescribeTimeout: p.Describing, Slow: describing(p)})
	if err != nil {
		return nil, err
	}
	if list := set.List(); len(list) == 1 {
		return list[0], nil
	}
	if problems := set.Problems(); len(problems) > 0 {
		return nil, failure.NothingRan(problems[0].Err, ToolHint(problems[0].Err))
	}
	return nil, failure.Usage("", "%s: this is a folder; name a file in it", path)
}

// OpenFolder describes the executables in a folder whose name contains filter.
func OpenFolder(ctx context.Context, p *program.Env, dir, filter string) (*exectool.Toolset, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: this is not a folder", dir)
	}
	if err != nil {
		return nil, failure.NothingRan(fmt.Errorf("read tools: %w", err), "")
	}
	opts := exectool.Options{Environ: p.Environ, DescribeTimeout: p.Describing, Slow: describing(p), CacheDir: program.In(p.CacheDir(), "tools")} // as agentfile.Load
	set, err := exectool.Open(ctx, []exectool.Source{{Path: dir, Filter: filter}}, opts)
	if err != nil {
		return nil, err
	}
	for _, problem := range set.Problems() {
		if problem.Path == dir {
			return nil, failure.NothingRan(problem.Err, "")
		}
	}
	return set, nil
}

func ToolHint(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "`agents check --tools list` names the tools of an agent"
	case errors.Is(err, exectool.ErrWritable):
		return "remove the write permission of others: chmod o-w"
	}
	return "`agents help tools` describes what a tool answers"
}
