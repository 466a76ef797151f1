package openapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
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
			r.path = strings.ReplaceAll(r.path, "{"+p.name+"}", value)
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
	h := textproto.MIMEHeader{"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": key})}}
	if field := object(object(object(b.schema)["properties"])[key]); field["format"] == "binary" || media != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("form-data", map[string]string{"name": key, "filename": key}))
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
