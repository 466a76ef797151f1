package sinks

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/urfave/cli/v3"
)

// The variables of OpenTelemetry that name a collector.
const (
	otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTraces   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelResource = "OTEL_RESOURCE_ATTRIBUTES"
)

// TraceFileFlag is --trace-file.
func TraceFileFlag(file *string) cli.Flag {
	return &cli.StringFlag{Name: "trace-file", Usage: "append every span of the run to `FILE` as a line of OTLP in JSON", Destination: file}
}

// Spans opens the exporter of spans to a file and to the collector that the
// environment names. Without either the observer is nil. What is wrong with the
// environment is a warning: it never keeps a run from starting.
func (s *Sinks) Spans(path string) (func(agent.Event), error) {
	collector, from := s.collector()
	if path == "" && collector == "" {
		return nil, nil
	}
	opts := observe.TraceOptions{URL: collector, Resource: s.resource(), Version: s.P.Version}
	var file *os.File
	if path != "" {
		var err error
		if file, err = observe.OpenLog(path); err != nil {
			return nil, notOpened("--trace-file", path, err)
		}
		opts.W = file
	}
	if collector != "" {
		opts.HTTP.Header = s.collectorHeader()
	}
	t, err := observe.OpenTrace(opts)
	if err != nil {
		s.warn(fmt.Sprintf("%s: no spans are sent: %v", from, err))
		if file == nil {
			return nil, nil
		}
		opts.URL = ""
		t, _ = observe.OpenTrace(opts) // only a URL can be wrong
	}
	s.closers = append(s.closers, func() error {
		err := t.Close()
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	})
	s.Traced = true
	return t.Observe, nil
}

func (s *Sinks) warn(text string) {
	if !s.P.Global.Quiet {
		s.P.Warn(text)
	}
}

// collector is the URL to which spans are posted, and the variable that names it.
func (s *Sinks) collector() (url, from string) {
	get := s.P.Getenv
	url, from = get(otelTraces), otelTraces
	if url == "" && get(otelEndpoint) != "" {
		url, from = strings.TrimRight(get(otelEndpoint), "/")+"/v1/traces", otelEndpoint
	}
	exporter := get("OTEL_TRACES_EXPORTER")
	if url == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || exporter != "" && !strings.Contains(exporter, "otlp") {
		return "", ""
	}
	if cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), get("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc" {
		s.warn(from + ": no spans are sent: OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and agents speaks http/json; name the collector's HTTP port, usually 4318")
		return "", ""
	}
	return url, from
}

// collectorHeader is what is sent with every request to the collector.
func (s *Sinks) collectorHeader() http.Header {
	header := http.Header{}
	variable := "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	if s.P.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_HEADERS"
	}
	for key, value := range s.pairs(variable) {
		header.Set(key, value)
	}
	return header
}

// resource describes this program in spans.
func (s *Sinks) resource() map[string]string {
	attributes := map[string]string{"service.name": "agents", "service.version": s.P.Version}
	for key, value := range s.pairs(otelResource) {
		attributes[key] = value
	}
	if name := s.P.Getenv("OTEL_SERVICE_NAME"); name != "" {
		attributes["service.name"] = name
	}
	return attributes
}

// pairs reads a variable of the form key=value,key=value, whose values are
// percent-encoded. One that is not of that form counts as empty, as the
// specification wants it.
func (s *Sinks) pairs(variable string) map[string]string {
	list := map[string]string{}
	for pair := range strings.SplitSeq(s.P.Getenv(variable), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil {
			s.warn(variable + " is ignored: it is not a list of KEY=VALUE, separated by commas, with percent-encoded values")
			return nil
		}
		list[key] = value
	}
	return list
}
