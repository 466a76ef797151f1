package observe

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// The variables of OpenTelemetry that name a collector.
const (
	otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTraces   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelResource = "OTEL_RESOURCE_ATTRIBUTES"
)

// An Environ reads the settings of an exporter of spans from the environment variables of
// OpenTelemetry. Warn gets what is wrong with them.
type Environ struct {
	Getenv func(string) string
	Warn   func(string)
}

// Collector returns the URL to which spans are posted, "" if there is none, and the variable
// that names it.
func (e Environ) Collector() (url, from string) {
	get := e.Getenv
	url, from = get(otelTraces), otelTraces
	if url == "" && get(otelEndpoint) != "" {
		url, from = strings.TrimRight(get(otelEndpoint), "/")+"/v1/traces", otelEndpoint
	}
	exporter := get("OTEL_TRACES_EXPORTER")
	if url == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || exporter != "" && !strings.Contains(exporter, "otlp") {
		return "", ""
	}
	if cmp.Or(get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), get("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc" {
		e.Warn(from + ": no spans are sent: OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and agents speaks http/json; name the collector's HTTP port, usually 4318")
		return "", ""
	}
	return url, from
}

// Header is what is sent with every request to the collector.
func (e Environ) Header() http.Header {
	header := http.Header{}
	variable := "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	if e.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_HEADERS"
	}
	for key, value := range e.pairs(variable) {
		header.Set(key, value)
	}
	return header
}

// Resource describes a program in spans.
func (e Environ) Resource(name, version string) map[string]string {
	attributes := map[string]string{"service.name": name, "service.version": version}
	for key, value := range e.pairs(otelResource) {
		attributes[key] = value
	}
	if name := e.Getenv("OTEL_SERVICE_NAME"); name != "" {
		attributes["service.name"] = name
	}
	return attributes
}

// pairs reads a variable of the form key=value,key=value, whose values are
// percent-encoded. One that is not of that form counts as empty, as the
// specification wants it.
func (e Environ) pairs(variable string) map[string]string {
	list := map[string]string{}
	for pair := range strings.SplitSeq(e.Getenv(variable), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil {
			e.Warn(variable + " is ignored: it is not a list of KEY=VALUE, separated by commas, with percent-encoded values")
			return nil
		}
		list[key] = value
	}
	return list
}
