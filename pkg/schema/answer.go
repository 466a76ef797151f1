package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// An Answer is what the answers of an agent must satisfy.
type Answer struct {
	name   string
	text   string
	schema *Schema
}

// MaxAnswer limits the schema of an answer, in bytes: it is sent to the model.
const MaxAnswer = 1 << 20

// CompileAnswer compiles the JSON Schema doc as Compile does. Errors call it
// name.
func CompileAnswer(name string, doc []byte) (*Answer, error) {
	if len(doc) > MaxAnswer {
		return nil, fmt.Errorf("compile schema %s: it is longer than %d bytes", name, MaxAnswer)
	}
	s, err := Compile(name, doc)
	if err != nil {
		return nil, err
	}
	return &Answer{name, strings.TrimSpace(string(doc)), s}, nil
}

// Of returns a copy of a whose answers must satisfy s, and not what a asks of them.
func (s *Answer) Of(a *agent.Agent) *agent.Agent {
	b := *a
	b.OutputSchema = s.Output()
	return &b
}

// Output compiles the JSON Schema doc: see runner.Runner.
func Output(doc json.RawMessage) (*agent.Output, error) {
	s, err := CompileAnswer("of the answer", doc)
	if err != nil {
		return nil, err
	}
	return s.Output(), nil
}

// Output is s as an agent has it.
func (s *Answer) Output() *agent.Output {
	return &agent.Output{Schema: json.RawMessage(s.text), Accept: s.Accept,
		Instructions: "Your answer must be one JSON value and nothing else: no explanation, no code fence. It must satisfy this JSON Schema:\n" + s.text}
}

// CompileShape compiles the JSON Schema doc as Compile does. Errors call it name.
func CompileShape(name string, doc []byte) (*agent.Shape, error) {
	s, err := Compile(name, doc)
	if err != nil {
		return nil, err
	}
	return &agent.Shape{Schema: doc, Check: func(ctx context.Context, value json.RawMessage) error {
		violations, err := s.Validate(ctx, value)
		if err != nil {
			return err
		}
		if v, err := decode(value); err == nil && len(violations) == 0 {
			violations = otherCase(nil, s.compiled, v, nil)
		}
		if len(violations) > 0 {
			return errors.New(listed(violations))
		}
		return nil
	}}, nil
}

// Accept compares an answer with the schema: see runner.Runner. The answer is
// the JSON without a Markdown fence around it.
func (s *Answer) Accept(ctx context.Context, answer string) (string, error) {
	answer = unfence(answer)
	violations, err := s.schema.Validate(ctx, []byte(answer))
	if err != nil {
		return "", err
	}
	if len(violations) == 0 {
		return answer, nil
	}
	return "", fmt.Errorf("it does not satisfy the JSON Schema %s:%s", s.name, listed(violations))
}

func listed(violations []Violation) string {
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

// unfence removes the Markdown code fence that models often put around JSON.
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
