package openapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

type request struct {
	path   string
	query  []string // "name=value", escaped
	header http.Header
	body   []byte
}

func (op *operation) request(args map[string]any) (*request, error) {
	r := &request{path: op.path, header: http.Header{"Accept": {"application/json, */*;q=0.5"}}}
	for _, p := range op.parameters {
		v := args[p.arg]
		switch {
		case v == nil && p.required:
			return nil, fmt.Errorf("%s is missing", p.arg)
		case v == nil:
			continue
		case p.style == "json":
			v = text(v, true)
		}
		switch p.in {
		case "path":
			value := join(v, ",", p.explode, url.PathEscape)
			if strings.Trim(value, ".") == "" {
				return nil, fmt.Errorf("%s must not be %q: in a path, it leads to another resource", p.arg, value)
			}
			path, query, hasQuery := strings.Cut(r.path, "?")
			if r.path = strings.ReplaceAll(path, "{"+p.name+"}", value); hasQuery {
				r.path += "?" + strings.ReplaceAll(query, "{"+p.name+"}", join(v, ",", p.explode, url.QueryEscape))
			}
		case "query":
			r.query = append(r.query, pairs(p.name, v, p.style, p.explode)...)
		case "header":
			if name := http.CanonicalHeaderKey(p.name); !slices.Contains([]string{"Accept", "Authorization", "Content-Type"}, name) { // as OpenAPI has it
				r.header.Set(name, join(v, ",", p.explode, func(s string) string { return s }))
			}
		case "cookie":
			r.header.Add("Cookie", strings.Join(pairs(p.name, v, p.style, p.explode), "; "))
		}
	}
	switch v := args[bodyArg]; {
	case op.body != nil && v != nil:
		return r, op.body.write(r, v)
	case op.body != nil && op.body.required:
		return nil, fmt.Errorf("%s, the body, is missing", bodyArg)
	}
	return r, nil
}

// text is a value as a text: a string is itself, unless quoted.
func text(v any, quoted bool) string {
	if s, ok := v.(string); ok && !quoted || v == nil {
		return s
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}

// pairs are the parts of a query or a form that carry a value.
func pairs(name string, v any, style string, explode bool) (all []string) {
	escaped := url.QueryEscape(name)
	switch m, l := object(v), list(v); {
	case style == "deepObject":
		return deep(escaped, v)
	case m != nil && explode:
		for _, key := range sorted(m) {
			all = append(all, url.QueryEscape(key)+"="+url.QueryEscape(text(m[key], false)))
		}
		return all
	case l != nil && explode:
		for _, item := range l {
			all = append(all, escaped+"="+url.QueryEscape(text(item, false)))
		}
		return all
	}
	separator := cmp.Or(map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}[style], ",")
	return []string{escaped + "=" + join(v, separator, false, url.QueryEscape)}
}

// deep are the parts of a value of the style deepObject.
func deep(name string, v any) (all []string) {
	for _, key := range sorted(object(v)) {
		all = append(all, deep(name+"["+url.QueryEscape(key)+"]", object(v)[key])...)
	}
	for i, item := range list(v) {
		all = append(all, deep(fmt.Sprintf("%s[%d]", name, i), item)...)
	}
	if object(v) == nil && list(v) == nil {
		all = append(all, name+"="+url.QueryEscape(text(v, false)))
	}
	return all
}

// join writes a value in one piece.
func join(v any, separator string, explode bool, escape func(string) string) string {
	m, parts := object(v), []string(nil)
	if m == nil && list(v) == nil {
		return escape(text(v, false))
	}
	for _, item := range list(v) {
		parts = append(parts, escape(text(item, false)))
	}
	for _, key := range sorted(m) {
		between := map[bool]string{true: "=", false: separator}[explode]
		parts = append(parts, escape(key)+between+escape(text(m[key], false)))
	}
	return strings.Join(parts, separator)
}

// write makes v the body of r.
func (b *body) write(r *request, v any) error {
	media, m := b.media, object(v)
	switch {
	case strings.Contains(media, "json"):
		r.body = []byte(text(v, true))
	case m != nil && strings.Contains(media, "urlencoded"):
		var all []string
		for _, key := range sorted(m) {
			style, value := words(object(b.encoding[key])["style"]), m[key]
			if object(value) != nil && style == "" {
				value = text(value, true)
			}
			all = append(all, pairs(key, value, style, true)...)
		}
		r.body = []byte(strings.Join(all, "&"))
	case m != nil && strings.Contains(media, "multipart"):
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		for _, key := range sorted(m) {
			values := list(m[key])
			if values == nil {
				values = []any{m[key]}
			}
			for _, value := range values {
				if err := b.part(w, key, value); err != nil {
					return err
				}
			}
		}
		w.Close()
		r.body, media = form.Bytes(), w.FormDataContentType()
	default:
		data, own, err := content(v)
		if r.body, media = data, cmp.Or(own, media); err != nil {
			return err
		}
		if strings.Contains(media, "*") {
			media = "application/octet-stream"
		}
	}
	r.header.Set("Content-Type", media)
	return nil
}

func (b *body) part(w *multipart.Writer, key string, v any) error {
	data, media, err := content(v)
	if err != nil {
		return err
	}
	h := textproto.MIMEHeader{"Content-Disposition": {strings.TrimSuffix(multipart.FileContentDisposition(key, ""), `; filename=""`)}}
	if field := object(object(object(b.schema)["properties"])[key]); field["format"] == "binary" || media != "" {
		h.Set("Content-Disposition", multipart.FileContentDisposition(key, key))
		h.Set("Content-Type", cmp.Or(media, "application/octet-stream"))
	} else if object(v) != nil {
		h.Set("Content-Type", "application/json")
	}
	part, err := w.CreatePart(h)
	if err == nil {
		_, err = part.Write(data)
	}
	return err
}

// content returns a value as bytes. For text that is a data: URL in base64, it returns the
// decoded bytes and their media type.
func content(v any) (data []byte, media string, err error) {
	plain := text(v, false)
	rest, isURL := strings.CutPrefix(plain, "data:")
	media, encoded, isBase64 := strings.Cut(rest, ";base64,")
	if !isURL || !isBase64 {
		return []byte(plain), "", nil
	}
	if data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
		err = fmt.Errorf("a data: URL is not valid base64: %w", err)
	}
	return data, cmp.Or(media, "application/octet-stream"), err
}

// groups are arguments of a tool that reads a table: what each holds, the parameter of
// PostgREST that this becomes, and what it means.
var groups = [][4]string{
	{"subset", "offset", "offset", "Number of rows to skip"},
	{"subset", "limit", "limit", "Maximum number of rows to return"},
	{"subset", "columns", "select", "Comma-separated column names to return, such as id,name"},
	{"ranking", "order", "order", "Ordering clause, such as created_at.desc,name.asc"},
}

// rowFilter begins the references of the parameters that filter the rows of a table.
const rowFilter = "#/parameters/rowFilter."

// The parameters of PostgREST that combine filters, and those that cannot filter, whatever the
// columns are called.
var (
	combining = []string{"and", "or", "not.and", "not.or"}
	options   = []string{"select", "columns", "order", "limit", "offset", "on_conflict"}
)

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
			if strings.HasPrefix(p.ref, rowFilter) {
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

// filters reports whether a parameter filters the rows of the table by a column, or by a value in
// it. Filters of embedded tables, such as actors.name, do not.
func (op *operation) filters(key string) bool {
	column, _, _ := strings.Cut(key, "->")
	return slices.Contains(combining, key) || !slices.Contains(options, column) && slices.ContainsFunc(op.parameters, func(p parameter) bool {
		return p.name == column && strings.HasPrefix(p.ref, rowFilter)
	})
}

// rows makes the request of a call of a table or a function.
func (op *operation) rows(args map[string]any) (*request, error) {
	r, filtered := &request{path: op.path, header: http.Header{"Accept": {"application/json"}}}, false
	for _, group := range []string{"arguments", "filters"} {
		for key, v := range object(args[group]) {
			if v != nil {
				r.query = append(r.query, url.QueryEscape(key)+"="+url.QueryEscape(text(v, false)))
				filtered = filtered || group == "filters" && op.filters(key)
			}
		}
	}
	if !filtered && (op.method == "PATCH" || op.method == "DELETE") {
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
