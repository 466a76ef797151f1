package prompt

import (
	"context"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/schema"
)

// ReadAnswerSchema reads the file of --output-schema; without a file it is nil.
func ReadAnswerSchema(ctx context.Context, path string) (*schema.Answer, error) {
	if path == "" {
		return nil, nil
	}
	data, err := program.ReadFile(ctx, path, schema.MaxAnswer)
	if err != nil {
		return nil, failure.NotRead(ctx, "--output-schema", err)
	}
	answer, err := schema.CompileAnswer(path, data)
	if err != nil {
		return nil, failure.Usage("", "--output-schema: %s", err)
	}
	return answer, nil
}
