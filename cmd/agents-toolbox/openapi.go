package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
	"github.com/agents-exe/agents/pkg/source/toolbox/openapi"
)

func openOpenAPI(ctx context.Context, settings json.RawMessage) (agent.ToolList, io.Closer, error) {
	var s companion.OpenAPI
	if err := json.Unmarshal(settings, &s); err != nil {
		return nil, nil, err
	}
	box, err := openapi.Open(ctx, s, os.Environ(), http.ProxyFromEnvironment)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range box.Skipped {
		fmt.Fprintf(os.Stderr, "left out: %s\n", line)
	}
	return box.Tools, nil, nil
}
