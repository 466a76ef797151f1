package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// sample is how many rows of a table diff shows, of those that were added and of those that
// were removed.
const sample = 20

// A difference describes the change of one table, view, index or trigger.
type difference struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Change string `json:"change"` // added, removed, schema or rows
	// A changed row is removed and added. Fewer rows may be shown than there are.
	Columns []string `json:"columns,omitempty"`
	Added   int64    `json:"rowsAdded"`
	Removed int64    `json:"rowsRemoved"`
	New     [][]any  `json:"addedRows,omitempty"`
	Old     [][]any  `json:"removedRows,omitempty"`
}

// schemas lists what differs in both schemas, or is a table in both.
const schemas = `SELECT coalesce(n.type, o.type), coalesce(n.name, o.name),
 CASE WHEN o.name IS NULL THEN 'added' WHEN n.name IS NULL THEN 'removed' WHEN n.sql IS NOT o.sql THEN 'schema' ELSE 'rows' END
FROM main.sqlite_schema n FULL JOIN old.sqlite_schema o ON n.type = o.type AND n.name = o.name
WHERE coalesce(n.name, o.name) NOT LIKE 'sqlite\_%' ESCAPE '\'
 AND (n.sql IS NOT o.sql OR n.type = 'table' AND n.sql NOT LIKE 'CREATE VIRTUAL%') ORDER BY 1, 2`

func (b *box) diff(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	changes := []difference{}
	var version string
	err := b.with(ctx, inv, a, func(_ *history, name, path string) error {
		version = name
		c, err := open(path, reading)
		if err != nil {
			return err
		}
		defer c.close()
		if _, err := c.query(ctx, "ATTACH "+quoted(b.Path, `'`)+" AS old", limits{}); err != nil {
			return err
		}
		c.restrict(false)
		list, err := c.query(ctx, schemas, limits{rows: 10000})
		if err != nil {
			return err
		}
		left := b.MaxBytes
		for _, row := range list.Rows {
			d := difference{Type: row[0].(string), Name: row[1].(string), Change: row[2].(string)}
			if d.Change == "rows" {
				if err := d.compare(ctx, c, &left); err != nil {
					return fmt.Errorf("compare the table %s: %w", d.Name, err)
				}
			}
			if d.Change != "rows" || d.Added+d.Removed > 0 {
				changes = append(changes, d)
			}
		}
		return nil
	})
	return map[string]any{"version": version, "changes": changes}, err
}

// compare counts and shows the rows that are in only one of two tables with the same columns.
// left is how many bytes the rows may still take.
func (d *difference) compare(ctx context.Context, c *conn, left *int) error {
	newer, older := "SELECT * FROM main."+quoted(d.Name, `"`), "SELECT * FROM old."+quoted(d.Name, `"`)
	show := func(rows string, count *int64, shown *[][]any) error {
		r, err := c.query(ctx, "SELECT count(*) FROM ("+rows+")", limits{})
		if err != nil {
			return err
		}
		if *count = r.Rows[0][0].(int64); *count == 0 || *left <= 0 {
			return nil
		}
		if r, err = c.query(ctx, rows, limits{sample, *left}); err == nil {
			*shown, d.Columns = r.Rows, r.Columns
			*left -= r.size
		}
		return err
	}
	if err := show(newer+" EXCEPT "+older, &d.Added, &d.New); err != nil {
		return err
	}
	return show(older+" EXCEPT "+newer, &d.Removed, &d.Old)
}

func quoted(name, quote string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}
