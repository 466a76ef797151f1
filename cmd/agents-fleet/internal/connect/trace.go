package connect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/observe"
	"go.temporal.io/sdk/interceptor"
)

// A Trace exports the spans of Temporal's workflows and activities, and those of the agents
// that they run, as one trace. It is safe for concurrent use. The zero value exports nothing,
// but a workflow that its client starts is part of the trace.
type Trace struct {
	mu  sync.Mutex
	out *observe.Trace
}

func OpenTrace(o observe.TraceOptions) (*Trace, error) {
	out, err := observe.OpenTrace(o)
	if err != nil {
		return nil, err
	}
	return &Trace{out: out}, nil
}

// Close sends what is queued.
func (t *Trace) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Close()
}

// Record exports the spans of a run that has ended, from all events of its record.
func (t *Trace) Record(events []agent.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		t.out.Observe(e)
	}
}

func (t *Trace) Interceptor() interceptor.Interceptor {
	return interceptor.NewTracingInterceptor(&tracer{out: t})
}

// Under returns a context for starting the workflow of a run: the workflow's span is then
// below that of the run.
func Under(ctx context.Context, session, traceparent string) context.Context {
	c, ok := traceid.Parse(traceparent)
	if !ok {
		c = traceid.Root(session)
	}
	c.Span = traceid.Run(session, 0)
	return context.WithValue(ctx, spanKey{}, &span{context: c})
}

type spanKey struct{}

// A tracer makes spans with the ids of package traceid.
type tracer struct {
	interceptor.BaseTracer
	out *Trace
}

type span struct {
	context traceid.Context
	parent  string
	start   *interceptor.TracerStartSpanOptions
	out     *Trace
}

func (t *tracer) Options() interceptor.TracerOptions {
	return interceptor.TracerOptions{SpanContextKey: spanKey{}, HeaderKey: "traceparent", DisableSignalTracing: true, DisableQueryTracing: true, DisableUpdateTracing: true, AllowInvalidParentSpans: true}
}

func (t *tracer) UnmarshalSpan(m map[string]string) (interceptor.TracerSpanRef, error) {
	if c, ok := traceid.Parse(m["traceparent"]); ok {
		return &span{context: c}, nil
	}
	return nil, nil
}

func (t *tracer) MarshalSpan(s interceptor.TracerSpan) (map[string]string, error) {
	if s, ok := s.(*span); ok && s.context.Span != "" {
		return map[string]string{"traceparent": s.context.String()}, nil
	}
	return nil, nil
}

func (t *tracer) SpanFromContext(ctx context.Context) interceptor.TracerSpan {
	if s, ok := ctx.Value(spanKey{}).(*span); ok {
		return s
	}
	return nil
}

func (t *tracer) ContextWithSpan(ctx context.Context, s interceptor.TracerSpan) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}

// StartSpan begins a span. One without a parent, such as that of an activity whose workflow
// began without a trace, is not exported.
func (t *tracer) StartSpan(o *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	up, ok := o.Parent.(*span)
	if !ok || up == nil {
		return &span{}, nil
	}
	if t.out.out == nil {
		return &span{context: up.context}, nil // passes on what nobody would export
	}
	s := &span{context: up.context, parent: up.context.Span, start: o, out: t.out}
	s.context.Span = traceid.Call(o.IdempotencyKey)
	if o.IdempotencyKey == "" {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it never fails
		s.context.Span = hex.EncodeToString(id[:])
	}
	return s, nil
}

// Finish exports the span.
func (s *span) Finish(o *interceptor.TracerFinishSpanOptions) {
	if s.out == nil || s.parent == "" {
		return
	}
	done := observe.Span{Context: s.context, Parent: s.parent, Name: s.start.Operation + ":" + s.start.Name, Start: s.start.Time, End: time.Now(), Attributes: s.start.Tags}
	if o.Error != nil {
		done.Error = o.Error.Error()
	}
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.out.Add(done)
}
