package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/schema"
)

// maxAsks limits how often a model is asked for an answer that satisfies the
// schema.
const maxAsks = 3

// maxSchema limits the schema's file, in bytes.
const maxSchema = 1 << 20

// errAnswer says that the answer does not satisfy --output-schema.
var errAnswer = errors.New("the answer does not satisfy the schema")

// An answerSchema is what an answer must satisfy.
type answerSchema struct {
	path   string
	text   string
	schema *schema.Schema
}

// readAnswerSchema reads the file of --output-schema; no file is no schema.
func readAnswerSchema(ctx context.Context, path string) (*answerSchema, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readFile(ctx, path, maxSchema)
	if err != nil {
		return nil, notRead(ctx, "--output-schema", err)
	}
	if len(data) > maxSchema {
		return nil, usage("", "--output-schema %s: it is longer than %d bytes", path, maxSchema)
	}
	s, err := schema.Compile(path, data)
	if err != nil {
		return nil, nothingRan(fmt.Errorf("--output-schema: %w", err), "")
	}
	return &answerSchema{path: path, text: strings.TrimSpace(string(data)), schema: s}, nil
}

// tell returns a with the schema in its system prompt.
func (s *answerSchema) tell(a *agent.Agent) *agent.Agent {
	told := *a
	if told.System != "" {
		told.System += "\n\n"
	}
	told.System += "Your answer must be one JSON value and nothing else: no explanation, no code fence. It must satisfy this JSON Schema:\n" + s.text
	return &told
}

// run gets a first answer, and asks again while the answer does not satisfy the
// schema. The Outcome's answer is the JSON alone; what was spent is that of all
// asks.
func (s *answerSchema) run(ctx context.Context, r *agent.Runner, first func(context.Context) (*agent.Outcome, error)) (*agent.Outcome, error) {
	var spent agent.Spent
	var turns int
	var took time.Duration
	next := first
	for ask := 1; ; ask++ {
		out, err := next(ctx)
		spent = spent.Add(out.Spent)
		turns += out.Turns
		took += out.Duration
		out.Spent, out.Turns, out.Duration = spent, turns, took
		if err != nil {
			return out, err
		}
		answer := unfence(out.Answer)
		violations := s.schema.Validate([]byte(answer))
		if len(violations) == 0 {
			out.Answer = answer
			return out, nil
		}
		list := listViolations(violations)
		if ask == maxAsks {
			return out, &failure{code: exitAnswer, hint: "the schema may ask for more than the model can give; --output json shows the last answer",
				err: fmt.Errorf("run agent %s: %w %s after %d attempts:%s", out.Agent, errAnswer, s.path, ask, list)}
		}
		prompt := agent.UserText("Your answer does not satisfy the JSON Schema:" + list + "\nAnswer again with the corrected JSON value and nothing else.")
		next = func(ctx context.Context) (*agent.Outcome, error) { return r.Run(ctx, prompt) }
	}
}

func listViolations(violations []schema.Violation) string {
	const most = 20
	var b strings.Builder
	for i, v := range violations {
		if i == most {
			fmt.Fprintf(&b, "\n- and %d more", len(violations)-most)
			break
		}
		fmt.Fprintf(&b, "\n- %s", v)
	}
	return b.String()
}

// unfence takes a JSON text out of a Markdown code fence, which models like to
// put around it.
func unfence(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return text
	}
	inner = strings.TrimPrefix(inner, "json")
	return strings.TrimSpace(inner)
}
