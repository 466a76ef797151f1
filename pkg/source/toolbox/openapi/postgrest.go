package openapi

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// groups are arguments of a tool that reads a table: what each holds, the parameter of
// PostgREST that this becomes, and what it means.
var groups = [][4]string{
	{"subset", "offset", "offset", "Number of rows to skip"},
	{"subset", "limit", "limit", "Maximum number of rows to return"},
	{"subset", "columns", "select", "Comma-separated column names to return, such as id,name"},
	{"ranking", "order", "order", "Ordering clause, such as created_at.desc,name.asc"},
}

var groupAbout = map[string]string{
	"subset": "Pagination and column selection", "ranking": "Result ordering", "arguments": "The arguments of the function",
	"filters": "Row filters on columns: an operator and a value, such as eq.5, gt.3, like.*x*, in.(1,2), is.null",
}

// permitted reports whether the entry permits an operation of PostgREST.
func (b *Box) permitted(op *operation) bool {
	methods := b.settings.Methods
	if len(methods) == 0 {
		methods = readMethods
	}
	return op.path != "/" && slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, op.method) })
}

// table makes t the tool for a table or a function of PostgREST.
func (b *Box) table(t *tool) {
	op := t.op
	table := strings.TrimLeft(op.path, "/")
	isFunction := strings.HasPrefix(table, "rpc/")
	t.make = op.rows
	t.spec.Name = b.name(strings.ToLower(op.method) + "_" + b.name(table))
	t.spec.Description = strings.TrimSpace(shorten(op.about, maxAbout) + "\nTable: " + table)
	t.spec.Schema = b.doc.bounded(func(e *expander, depth int) any {
		properties := map[string]any{}
		add := func(group, key, about string, types ...string) {
			if properties[group] == nil {
				properties[group] = map[string]any{"type": "object", "description": groupAbout[group], "properties": map[string]any{}}
			}
			object(object(properties[group])["properties"])[key] = map[string]any{"type": types, "description": about}
		}
		for _, p := range op.parameters {
			for _, g := range groups {
				if p.name == g[2] && p.in == "query" && op.method == "GET" && !strings.Contains(p.ref, "rowFilter.") {
					add(g[0], g[1], g[3], "string", "integer")
				}
			}
			if strings.HasPrefix(p.ref, "#/parameters/rowFilter.") {
				add("filters", p.name, cmp.Or(shorten(p.about, e.about), "Filter on "+p.name), "string", "number", "boolean")
			} else if isFunction && p.in == "query" && p.ref == "" {
				add("arguments", p.name, shorten(p.about, e.about), "string", "number", "boolean")
			}
		}
		if op.body != nil && op.method != "GET" && op.method != "DELETE" {
			row := e.schema(op.body.schema, depth, nil)
			if properties["body"] = row; op.method == "PATCH" {
				delete(row, "required")
			} else if !isFunction {
				properties["body"] = map[string]any{"anyOf": []any{row, map[string]any{"type": "array", "items": row}}, "description": "A row, or an array of rows"}
			}
		}
		return map[string]any{"type": "object", "properties": properties}
	})
}

// rows makes the request of a call of a table or a function.
func (op *operation) rows(args map[string]any) (*request, error) {
	r := &request{path: op.path, header: http.Header{"Accept": {"application/json"}}}
	for _, group := range []string{"arguments", "filters"} {
		for key, v := range object(args[group]) {
			if v != nil {
				r.query = append(r.query, url.QueryEscape(key)+"="+url.QueryEscape(text(v, false)))
			}
		}
	}
	if len(r.query) == 0 && (op.method == "PATCH" || op.method == "DELETE") {
		return nil, errors.New("filters are missing: without one, the call would change every row")
	}
	for _, g := range groups {
		if v := text(object(args[g[0]])[g[1]], false); v != "" {
			r.query = append(r.query, g[2]+"="+url.QueryEscape(v))
		}
	}
	slices.Sort(r.query)
	if body := args["body"]; body != nil && op.method != "GET" {
		r.body = []byte(text(body, true))
		r.header.Set("Content-Type", "application/json")
		r.header.Set("Prefer", "return=representation")
	}
	return r, nil
}
