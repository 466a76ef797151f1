package modelhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// maxModels limits the bytes that are read of a list of models.
const maxModels = 4 << 20

// Models asks the server for the names of its models. Embedding models come last.
func (x *Exchange) Models(ctx context.Context) ([]string, error) {
	var raw *http.Response
	if err := client.Get(ctx, "models", nil, &raw, x.options()...); err != nil {
		return nil, x.failure(ctx, err)
	}
	defer raw.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, raw.Body, maxModels)).Decode(&list); err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			err = fmt.Errorf("it is longer than %d bytes", large.Limit)
		}
		return nil, fmt.Errorf("its list of models: %w", err)
	}
	var chat, other []string
	for _, m := range list.Data {
		switch {
		case m.ID == "" || strings.ContainsFunc(m.ID, unicode.IsControl):
		case strings.Contains(strings.ToLower(m.ID), "embed"):
			other = append(other, m.ID)
		default:
			chat = append(chat, m.ID)
		}
	}
	return append(chat, other...), nil
}
