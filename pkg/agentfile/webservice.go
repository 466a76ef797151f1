package agentfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/sandbox"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

// webServiceStart is how long a toolbox may take to fetch and read its document.
const webServiceStart = 90 * time.Second

// A webService is an entry of openApiToolboxes or postgrestToolboxes. encoding/json
// matches its keys in any case, as agents-exe writes them.
type webService struct {
	Name, SpecURL, BaseURL, Token, APIKeyID string
	Headers                                 map[string]string
	Filter, Activation                      json.RawMessage
	AllowedMethods                          []string
	AllowPrivate                            bool
	TimeoutSeconds                          float64
	MaxOutputBytes                          int
	Sandbox                                 *sandbox.Config
	Secrets                                 []webSecret
}

// A WebService is a toolbox of an agent file that calls a web service.
type WebService struct {
	passive
	Name     string
	Document string // the absolute path of a file, or a URL
	URL      string // what it calls; "" means the server that Document names
	// Commands are the command lines that print secrets. They start in the working directory of tools.
	Commands [][]string
}

type webSecret struct {
	Source struct {
		Tag      string          `json:"tag"`
		Contents json.RawMessage `json:"contents"`
	} `json:"source"`
	Decoder    json.RawMessage `json:"decoder"`
	Serializer json.RawMessage `json:"serializer"`
}

// webServices adds the toolboxes of n that are web services.
func (l *loader) webServices(n *Node) {
	add := func(list, kind string) {
		var boxes []BuiltinToolbox
		n.File.Part(list, &boxes)
		for i, box := range boxes {
			pointer := fmt.Sprintf("%s/%d", n.File.at(list), i)
			if err := l.webService(n, pointer, kind, box); err != nil {
				l.report(n.File.problem(LeftOut, CodeSchema, pointer, "this is left out: %s", err))
			}
		}
	}
	add("openApiToolboxes", "openapi")
	add("postgrestToolboxes", "postgrest")
}

// webService adds a toolbox. Its tools are named as in agents-exe, where the name of every
// toolbox is that of its kind: openapi_openapi_getPet.
func (l *loader) webService(n *Node, pointer, kind string, box BuiltinToolbox) error {
	var c webService
	if strings.HasSuffix(box.Tag, "OnDisk") {
		var name string
		if err := box.settings(&name); err != nil {
			return err
		}
		path, ok := l.resolve(n, pointer, name, LeftOut)
		if !ok {
			return nil
		}
		l.further = append(l.further, path)
		data, err := readRegular(path, MaxBytes)
		if err != nil || !l.take(KindConfig, path, data) {
			return err
		}
		box.Contents = data
	}
	if err := box.settings(&c); err != nil {
		return err
	}
	s := companion.OpenAPI{Document: c.SpecURL, BaseURL: c.BaseURL, PostgREST: kind == "postgrest", Methods: c.AllowedMethods, Filter: c.Filter,
		AllowPrivate: c.AllowPrivate, TimeoutSeconds: c.TimeoutSeconds, MaxBytes: c.MaxOutputBytes}
	s.Name = kind + "_" + cmp.Or(c.Name, kind)
	for i := 2; c.Name == "" && slices.ContainsFunc(sourcesOf[*server](n), func(other *server) bool { return other.Name == s.Name }); i++ {
		s.Name = fmt.Sprintf("%s_%s_%d", kind, kind, i)
	}
	at, err := url.Parse(c.SpecURL)
	if err != nil || c.SpecURL == "" {
		return fmt.Errorf("specUrl %q is neither the path of a file nor a valid URL", c.SpecURL)
	}
	var changed string // by which a new document is recognized
	if path, isFile := strings.CutPrefix(c.SpecURL, "file://"); isFile || at.Scheme == "" {
		var ok bool
		if s.Document, ok = l.resolve(n, pointer, path, LeftOut); !ok {
			return nil
		}
		s.Document = absolute(".", s.Document)
		if info, err := os.Stat(s.Document); err == nil {
			changed = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
	}
	service := &WebService{Name: s.Name, Document: s.Document, URL: c.BaseURL}
	n.add(service)
	for _, secret := range c.Secrets {
		if command := secret.command(); command != nil {
			service.Commands = append(service.Commands, command)
		}
	}
	identity, _ := json.Marshal(s) // plain fields, without secrets
	if err := l.webSecrets(n, &c, &s); err != nil {
		return err
	}
	own := &server{pointer: pointer, service: true, uncached: httphost.Local(at), MCPServer: MCPServer{Name: s.Name, Sandbox: c.Sandbox, Activation: c.Activation}}
	own.client.Identity, own.client.Files, own.client.StartTimeout = string(identity)+changed, service.local(l, n), webServiceStart
	if c.TimeoutSeconds > 0 {
		own.client.CallTimeout = seconds(c.TimeoutSeconds) + 10*time.Second // the toolbox ends a request first
	}
	l.companion(n, own, "openapi", s)
	return nil
}

// command returns the command line that prints the secret; nil if it comes from elsewhere.
func (s *webSecret) command() (line []string) {
	if s.Source.Tag == "Command" {
		_ = json.Unmarshal(s.Source.Contents, &line) // agents-toolbox reports it
	}
	return line
}

// Services returns the toolboxes of n that call web services.
func (n *Node) Services() []*WebService { return sourcesOf[*WebService](n) }

// survey adds what the toolbox reads and executes.
func (w *WebService) survey(s *surveyor, n *Node) {
	s.later(func() {
		if filepath.IsAbs(w.Document) {
			s.file(KindDocument, w.Document)
		}
		for _, command := range w.Commands {
			s.command(command, s.environ(n.File.Spec.ToolEnv), n.workDir)
		}
	})
}

// local returns the local files that decide what the toolbox calls and executes.
func (w *WebService) local(l *loader, n *Node) (files []string) {
	if filepath.IsAbs(w.Document) {
		files = append(files, w.Document)
	}
	for _, line := range w.Commands {
		files = append(files, process.Programs(line, l.environ(n.File.Spec.ToolEnv), n.workDir)...)
	}
	return files
}

// webSecrets adds the keys and secrets of c to s. A key is only sent to the hosts that its
// entry allows.
func (l *loader) webSecrets(n *Node, c *webService, s *companion.OpenAPI) error {
	to, err := url.Parse(cmp.Or(c.BaseURL, c.SpecURL))
	if err != nil {
		return errors.New("baseUrl is not a valid URL")
	}
	if to.Host == "" && (c.APIKeyID != "" || c.Token != "" || len(c.Headers)+len(c.Secrets) > 0) {
		return errors.New("baseUrl is missing: keys, headers and secrets are sent only to its host")
	}
	if c.APIKeyID != "" {
		if s.Key, err = l.keyFor(c.APIKeyID, to); err != nil {
			return err
		}
	}
	s.Headers = map[string]string{}
	if c.Token != "" {
		l.tree.secrets = append(l.tree.secrets, config.NewSecret(c.Token))
		if c.Headers == nil {
			c.Headers = map[string]string{}
		}
		c.Headers["Authorization"] = "Bearer " + c.Token
	}
	for name, value := range c.Headers {
		value = keyReference().ReplaceAllStringFunc(value, func(match string) string {
			key, problem := l.keyFor(keyReference().FindStringSubmatch(match)[1], to)
			err = cmp.Or(err, problem)
			return key
		})
		s.Headers[name] = variable().ReplaceAllStringFunc(value, func(match string) string { return l.secretVariable(match[2 : len(match)-1]) })
	}
	for _, secret := range c.Secrets {
		source := &secret.Source
		var text string
		_ = json.Unmarshal(source.Contents, &text) // Command has an array; agents-toolbox reports others
		switch source.Tag {
		case "ApiKey":
			key, problem := l.keyFor(text, to)
			err = cmp.Or(err, problem)
			source.Tag, text = "Given", key
		case "EnvVar":
			value := l.secretVariable(text)
			if value == "" {
				err = cmp.Or(err, fmt.Errorf("the environment variable %q, the source of a secret, is not set", text))
			}
			source.Tag, text = "Given", value
		case "Given":
			l.tree.secrets = append(l.tree.secrets, config.NewSecret(text))
		case "FileSystem":
			text = absolute(filepath.Dir(n.File.Path), text)
		}
		if source.Tag != "Command" {
			source.Contents, _ = json.Marshal(text)
		}
		data, problem := json.Marshal(secret)
		err = cmp.Or(err, problem)
		s.Secrets = append(s.Secrets, data)
	}
	return err
}

// secretVariable returns an environment variable, whose value is then hidden from models.
func (l *loader) secretVariable(name string) string {
	value := toolenv.Lookup(l.opts.Environ, name)
	if value != "" {
		l.tree.secrets = append(l.tree.secrets, config.NewSecret(value))
	}
	return value
}

// keyFor returns a key of the keys file. It is an error if the key may not be sent to the
// host of u.
func (l *loader) keyFor(id string, u *url.URL) (string, error) {
	key, ok := l.opts.Keys.Lookup(id)
	switch {
	case !ok:
		return "", fmt.Errorf("there is no key %q%s", id, among(l.opts.Keys.IDs()))
	case !key.Allows(u):
		return "", fmt.Errorf("the key %q may only be sent to its hosts (%s), not to %s", id, strings.Join(key.Hosts, ", "), u.Host)
	case key.From.Elsewhere():
		return "", fmt.Errorf("the value of the key %q is in %s; a web service can use only a key whose value is in the keys file", id, key.From)
	}
	return key.Value.Reveal(), nil
}
