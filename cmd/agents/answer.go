package main

import (
	"context"

	"github.com/agents-exe/agents/pkg/schema"
)

// readAnswerSchema reads the file of --output-schema; no file is no schema.
func readAnswerSchema(ctx context.Context, path string) (*schema.Answer, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readFile(ctx, path, schema.MaxAnswer)
	if err != nil {
		return nil, notRead(ctx, "--output-schema", err)
	}
	answer, err := schema.CompileAnswer(path, data)
	if err != nil {
		return nil, usage("", "--output-schema: %s", err)
	}
	return answer, nil
}
