package openapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/agents-exe/agents/pkg/process"
)

// tagged is a choice as agents-exe has it: {"tag": "Base64", "contents": …}.
type tagged struct {
	Tag      string
	Contents json.RawMessage
}

// text returns the contents, which must be a string.
func (t *tagged) text(what string) (s string, err error) {
	if err = json.Unmarshal(t.Contents, &s); err != nil {
		err = fmt.Errorf("%s %s: its contents must be a string", what, t.Tag)
	}
	return s, err
}

func (t *tagged) unknown(what string) error {
	return fmt.Errorf("%s: there is no tag %q", what, t.Tag)
}

// A secret is a decoded secret with its place in requests.
type secret struct {
	in, name, value string // in is header, query or cookie
	plain           string // the secret alone
}

// openSecret reads an entry of "secrets" and the secret that it means.
func openSecret(ctx context.Context, data []byte, environ []string) (s secret, err error) {
	var entry struct{ Source, Decoder, Serializer tagged }
	if err = json.Unmarshal(data, &entry); err == nil {
		s.plain, err = entry.Source.read(ctx, environ)
	}
	if err == nil {
		s.plain, err = entry.Decoder.decode(s.plain)
	}
	if err != nil {
		return s, err
	}
	s.value = s.plain
	switch t := entry.Serializer; t.Tag {
	case "Header":
		var parts []string // name and template, which may be null
		if err := json.Unmarshal(t.Contents, &parts); err != nil || len(parts) != 2 {
			return s, fmt.Errorf("serializer Header: its contents must be an array of a name and a template")
		}
		if s.in, s.name = "header", parts[0]; parts[1] != "" {
			s.value = strings.ReplaceAll(parts[1], "{{secret}}", s.plain)
		}
	case "QueryString":
		s.in = "query"
		s.name, err = t.text("serializer")
	default:
		err = t.unknown("serializer")
	}
	return s, err
}

// read reads the secret of a source. environ is for a command.
func (t *tagged) read(ctx context.Context, environ []string) (string, error) {
	switch t.Tag {
	case "Given":
		return t.text("source")
	case "FileSystem":
		path, err := t.text("source")
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(path)
		return string(data), err
	case "Command":
		var args []string
		if err := json.Unmarshal(t.Contents, &args); err != nil || len(args) == 0 {
			return "", fmt.Errorf("source Command: its contents must be an array of a program and its arguments")
		}
		var out bytes.Buffer
		path, err := process.LookPath(args[0], environ)
		if err != nil {
			return "", fmt.Errorf("source Command: %w", err)
		}
		exit, err := process.Run(ctx, &process.Command{Path: path, Args: args[1:], Env: environ, Stdout: &out})
		if err == nil && (exit.Code != 0 || exit.Signal != 0) {
			err = errors.New(exit.String())
		}
		if err != nil {
			err = fmt.Errorf("source Command: %s: %w", args[0], err)
		}
		return out.String(), err
	}
	return "", t.unknown("source")
}

func (t *tagged) decode(s string) (string, error) {
	var data []byte
	var err error
	switch t.Tag {
	case "Clear":
		if string(t.Contents) == "true" {
			s = strings.TrimRight(s, " \t\r\n")
		}
		return s, nil
	case "Base64":
		data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	case "Hexadecimal":
		data, err = hex.DecodeString(strings.TrimSpace(s))
	default:
		return "", t.unknown("decoder")
	}
	if err != nil {
		err = fmt.Errorf("decoder %s: the secret does not have this encoding", t.Tag) // err may quote it
	}
	return string(data), err
}

func (s secret) add(r *request) {
	switch s.in {
	case "header":
		r.header.Set(s.name, s.value)
	case "cookie":
		r.header.Add("Cookie", s.name+"="+s.value)
	case "query":
		r.query = append(r.query, url.QueryEscape(s.name)+"="+url.QueryEscape(s.value))
	}
}

// keyFor is the key of the entry where op demands it: in the first way of its security
// that takes one key, else as a bearer token.
func (d *document) keyFor(op *operation, key string) secret {
	bearer := secret{in: "header", name: "Authorization", value: "Bearer " + key}
	if d == nil {
		return bearer
	}
	schemes := object(object(d.root["components"])["securitySchemes"])
	if d.swagger {
		schemes = object(d.root["securityDefinitions"])
	}
	for _, way := range op.security {
		for name := range object(way) {
			s, _ := d.resolve(schemes[name])
			switch kind := words(s["type"]); {
			case len(object(way)) != 1 || kind == "":
			case kind == "apiKey":
				return secret{in: words(s["in"]), name: words(s["name"]), value: key}
			case kind == "basic" || strings.EqualFold(words(s["scheme"]), "basic"):
				bearer.value = "Basic " + base64.StdEncoding.EncodeToString([]byte(key))
				return bearer
			default:
				return bearer
			}
		}
	}
	return bearer
}
