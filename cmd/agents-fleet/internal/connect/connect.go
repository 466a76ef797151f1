// Package connect opens clients of Temporal: the server's address and credentials from flags
// and the usual environment, the encryption of payloads, metrics and spans.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

const DefaultNamespace = "default"

// Options of a client. Address and Namespace take precedence over the environment:
// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_…, or a profile of
// Temporal's configuration file. Fallback is the address if nothing else names one.
type Options struct {
	Address, Namespace, Fallback string
	Key                          *Key
	// Metrics receives the measurements of the SDK, and Trace its spans; nil drops them.
	Metrics client.MetricsHandler
	Trace   *Trace
	// Logger receives the errors of the SDK; nil drops them.
	Logger *slog.Logger
}

// Client connects to the server, and returns the namespace too. The caller must close the
// client.
func (o Options) Client(ctx context.Context) (c client.Client, namespace string, err error) {
	opts, err := o.options()
	if err != nil {
		return nil, "", err
	}
	if c, err = client.DialContext(ctx, opts); err != nil {
		return nil, "", fmt.Errorf("connect to the Temporal server at %s: %w", opts.HostPort, err)
	}
	return c, opts.Namespace, nil
}

func (o Options) options() (client.Options, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return client.Options{}, fmt.Errorf("read Temporal's configuration: %w", err)
	}
	profile.Address = cmp.Or(o.Address, profile.Address, o.Fallback)
	profile.Namespace = cmp.Or(o.Namespace, profile.Namespace, DefaultNamespace)
	if profile.Address == "" {
		return client.Options{}, errors.New("no Temporal server is configured")
	}
	opts, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return opts, err
	}
	opts.Logger = log.NewStructuredLogger(cmp.Or(o.Logger, slog.New(slog.DiscardHandler)))
	opts.MetricsHandler = o.Metrics
	if o.Trace != nil {
		opts.Interceptors = []interceptor.ClientInterceptor{o.Trace.Interceptor()}
	}
	if o.Key != nil {
		opts.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), o.Key)
		opts.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: opts.DataConverter, EncodeCommonAttributes: true})
	}
	return opts, nil
}

// Types are search attributes by name, as servers register them.
func Types(attributes []temporal.SearchAttributeKey) map[string]enums.IndexedValueType {
	types := map[string]enums.IndexedValueType{}
	for _, a := range attributes {
		types[a.GetName()] = a.GetValueType()
	}
	return types
}

// Register adds the search attributes that the namespace does not have.
func Register(ctx context.Context, c client.Client, namespace string, attributes []temporal.SearchAttributeKey) error {
	service := c.OperatorService()
	have, err := service.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes: %w", err)
	}
	missing := Types(attributes)
	for name := range have.CustomAttributes {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := service.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing}); err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	return nil
}

// A Metrics serves measurements over HTTP to Prometheus, at /metrics.
type Metrics struct {
	client.MetricsHandler
	Address string
	server  *http.Server
}

// ServeMetrics listens on address. The caller must close the Metrics.
func ServeMetrics(address string) (*Metrics, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		l.Close()
		return nil, err
	}
	meter := metric.NewMeterProvider(metric.WithReader(exporter)).Meter("temporal-sdk-go")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	m := &Metrics{
		MetricsHandler: opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{Meter: meter, UseMonotonicCounters: true, OnError: func(error) {}}),
		Address:        l.Addr().String(),
		server:         &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
	}
	go m.server.Serve(l) // until Close
	return m, nil
}

func (m *Metrics) Close() error { return m.server.Close() }
