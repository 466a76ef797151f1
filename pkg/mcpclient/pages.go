package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// pages asks for every page of a list and returns the items under key.
func (c *conn) pages(ctx context.Context, key string, most int, ask func(ctx context.Context, cursor mcp.Cursor) error) (items []json.RawMessage, err error) {
	var cursor mcp.Cursor
	seen := map[mcp.Cursor]bool{}
	size := 0
	for range MaxPages {
		var got caught
		err := ask(catch(ctx, &got), cursor)
		raw, err := c.answer(ctx, &got, err)
		if err != nil {
			return items, err
		}
		var page map[string]json.RawMessage
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			return items, fmt.Errorf("the answer is no object: %s", clip(string(raw), 100))
		}
		if err := json.Unmarshal(page[key], &list); err != nil && page[key] != nil {
			return items, fmt.Errorf("%s in the answer is no array: %s", key, clip(string(page[key]), 100))
		}
		items = append(items, list...)
		size += len(raw)
		var next mcp.Cursor
		_ = json.Unmarshal(page["nextCursor"], &next) // null and nonsense end the list
		switch {
		case len(items) > most:
			return items[:most], fmt.Errorf("the list is longer than %d; the rest is left out", most)
		case size > c.opts.lineLimit():
			return items, fmt.Errorf("the list is longer than %d bytes; the rest is left out", c.opts.lineLimit())
		case next == "":
			return items, nil
		case seen[next]:
			return items, fmt.Errorf("the list goes in a circle: the cursor %q came before", clip(string(next), 100))
		}
		seen[next], cursor = true, next
	}
	return items, fmt.Errorf("the list has more than %d pages; the rest is left out", MaxPages)
}
