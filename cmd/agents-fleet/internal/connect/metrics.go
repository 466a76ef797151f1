package connect

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

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
