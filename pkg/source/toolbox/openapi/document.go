package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/yamldoc"
)

const (
	maxDocument = 64 << 20
	maxDepth    = 200 // of the YAML of a document
	maxHops     = 20  // from reference to reference
)

// A document is an OpenAPI 3 or Swagger 2 document as it is written.
type document struct {
	root    map[string]any
	swagger bool
}

func parse(text []byte) (*document, error) {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if !bytes.HasPrefix(text, []byte("{")) {
		docs, err := yamldoc.Parse(text, jsondoc.Options{MaxBytes: maxDocument, MaxDepth: maxDepth})
		if err != nil {
			return nil, err
		}
		text = docs[0].Raw(docs[0].Root)
	}
	d := &document{}
	if err := decode(text, &d.root); err != nil {
		return nil, err
	}
	version := cmp.Or(words(d.root["openapi"]), words(d.root["swagger"]))
	if d.swagger = strings.HasPrefix(version, "2"); !d.swagger && !strings.HasPrefix(version, "3") {
		return nil, errors.New(`it is not an OpenAPI 3 or Swagger 2 document: "openapi" or "swagger" is missing or has an unsupported version`)
	}
	return d, nil
}

// decode is json.Unmarshal that keeps numbers as they are written.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// Values in a document may have any type: those of an unexpected type count as empty.

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }
func words(v any) string {
	if n, ok := v.(json.Number); ok { // YAML has versions without quotes
		return n.String()
	}
	s, _ := v.(string)
	return s
}

// sorted is what the range over a map is here, so that the order is always the same.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// target returns the value that a reference names, or nil if it is not in the document.
func (d *document) target(ref string) map[string]any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	if !ok {
		return nil
	}
	var v any = d.root
	for _, token := range jsondoc.SplitPointer(pointer) {
		items := list(v)
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(items) {
			v = items[i]
		} else {
			v = object(v)[token]
		}
	}
	return object(v)
}

// resolve follows the references that v begins with. The error names one that leads
// nowhere.
func (d *document) resolve(v any) (map[string]any, error) {
	m := object(v)
	for range maxHops {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m, nil
		}
		if m = d.target(ref); m == nil {
			return nil, fmt.Errorf("%s is not in the document", ref)
		}
	}
	return nil, errors.New("its references form a cycle")
}

// An operation is a method of a path.
type operation struct {
	method, path, id, about string
	parameters              []parameter
	body                    *body
	servers                 []any // its own, its path's or the document's
	security                []any
}

type parameter struct {
	name, in, about string
	arg             string // the name of its argument
	required        bool
	schema          any
	style           string // as OpenAPI 3 has it, or json; "" is the usual one
	explode         bool
	ref             string // by which the operation names it
}

type body struct {
	media, about string
	required     bool
	schema       any
	encoding     map[string]any
}

// operations returns the operations in the order of their paths. Those that cannot be
// called are left out; skipped says why.
func (d *document) operations() (ops []*operation, skipped []string) {
	paths := object(d.root["paths"])
	for _, path := range sorted(paths) {
		item, err := d.resolve(paths[path])
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: %s", path, err))
		}
		for _, method := range []string{"get", "head", "options", "post", "put", "patch", "delete", "trace"} {
			raw := object(item[method])
			if raw == nil || strings.HasPrefix(path, "x-") {
				continue
			}
			op := &operation{method: strings.ToUpper(method), path: path, id: words(raw["operationId"]),
				about: strings.Trim(words(raw["summary"])+":\n"+words(raw["description"]), ":\n "), security: list(d.root["security"]),
				servers: slices.Concat(list(raw["servers"]), list(item["servers"]), list(d.root["servers"]))}
			if own, ok := raw["security"].([]any); ok {
				op.security = own
			}
			if err := d.inputs(op, item, raw); err != nil {
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", op.method, path, err))
				continue
			}
			ops = append(ops, op)
		}
	}
	return ops, skipped
}

// inputs sets the parameters of op, which replace those of its path, and its body.
func (d *document) inputs(op *operation, item, raw map[string]any) error {
	at := map[string]int{}
	for _, v := range slices.Concat(list(item["parameters"]), list(raw["parameters"])) {
		m, err := d.resolve(v)
		if err != nil {
			return err
		}
		p := d.parameter(m)
		p.ref = words(object(v)["$ref"])
		i, known := at[p.in+" "+p.name]
		switch {
		case p.in == "body":
			op.body = &body{media: d.consumes(raw, "json"), about: p.about, required: p.required, schema: m["schema"]}
		case p.in == "formData":
			d.field(op, raw, p)
		case known:
			op.parameters[i] = p
		case slices.Contains([]string{"path", "query", "header", "cookie"}, p.in):
			at[p.in+" "+p.name] = len(op.parameters)
			op.parameters = append(op.parameters, p)
		}
	}
	m, err := d.resolve(raw["requestBody"])
	if content := object(m["content"]); len(content) > 0 {
		media := slices.MinFunc(sorted(content), func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
		c := object(content[media])
		op.body = &body{media, words(m["description"]), m["required"] == true, c["schema"], object(c["encoding"])}
	}
	return err
}

// rank orders media types: those that say most about their content come first.
func rank(media string) int {
	i := slices.IndexFunc([]string{"application/json", "json", "urlencoded", "multipart", "text/"}, func(part string) bool { return strings.Contains(media, part) })
	return (i + 6) % 6 // what is none of them is the last
}

func (d *document) parameter(m map[string]any) parameter {
	p := parameter{name: words(m["name"]), in: words(m["in"]), about: words(m["description"]), schema: m["schema"], style: words(m["style"])}
	p.required = m["required"] == true || p.in == "path"
	for media, c := range object(m["content"]) { // it has one
		if p.schema = object(c)["schema"]; strings.Contains(media, "json") {
			p.style = "json"
		}
	}
	if d.swagger {
		if p.schema == nil {
			p.schema = m
		}
		p.style = map[string]string{"ssv": "spaceDelimited", "pipes": "pipeDelimited"}[words(m["collectionFormat"])]
		p.explode = m["collectionFormat"] == "multi"
		return p
	}
	p.explode = (p.in == "query" || p.in == "cookie") && (p.style == "" || p.style == "form")
	if own, ok := m["explode"].(bool); ok {
		p.explode = own
	}
	return p
}

// field adds a field of a form, as Swagger 2 has it, to the body of op.
func (d *document) field(op *operation, raw map[string]any, p parameter) {
	if op.body == nil {
		op.body = &body{media: d.consumes(raw, "form"), schema: map[string]any{"type": "object", "properties": map[string]any{}}}
	}
	schema := object(op.body.schema)
	field := maps.Clone(object(p.schema))
	if field["type"] == "file" {
		op.body.media = "multipart/form-data"
		field["type"], field["format"] = "string", "binary"
	}
	object(schema["properties"])[p.name] = field
	if p.required {
		op.body.required, schema["required"] = true, append(list(schema["required"]), p.name)
	}
}

// consumes is the media type of a body of Swagger 2.
func (d *document) consumes(raw map[string]any, want string) string {
	for _, media := range slices.Concat(list(raw["consumes"]), list(d.root["consumes"])) {
		if strings.Contains(words(media), want) {
			return words(media)
		}
	}
	return map[string]string{"json": "application/json", "form": "application/x-www-form-urlencoded"}[want]
}

// base is where the path of op begins, as the document has it: often relative to from,
// where the document came from, which may be nil.
func (d *document) base(op *operation, from *url.URL) (*url.URL, error) {
	var address string
	if d.swagger {
		scheme := "https"
		if all := list(d.root["schemes"]); len(all) > 0 && !slices.Contains(all, any(scheme)) {
			scheme = words(all[0])
		}
		if address = words(d.root["basePath"]); d.root["host"] != nil {
			address = scheme + "://" + words(d.root["host"]) + address
		}
	} else if len(op.servers) > 0 {
		server := object(op.servers[0])
		address = words(server["url"])
		for name, v := range object(server["variables"]) {
			address = strings.ReplaceAll(address, "{"+name+"}", words(object(v)["default"]))
		}
	}
	u, err := url.Parse(address)
	if err == nil && from != nil {
		u = from.ResolveReference(u)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the document does not contain the URL of its server (%q): set baseUrl", address)
	}
	return u, nil
}
