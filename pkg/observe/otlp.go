package observe

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// The JSON encoding of OTLP traces, as far as it is used here:
// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding. Ids are
// hexadecimal, 64-bit integers are strings, enumerations are numbers.
type otlpSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	Parent     string          `json:"parentSpanId,omitempty"`
	Flags      int             `json:"flags,omitempty"`
	Name       string          `json:"name"`
	Kind       int             `json:"kind"`
	Start      string          `json:"startTimeUnixNano"`
	End        string          `json:"endTimeUnixNano"`
	Attributes []otlpAttribute `json:"attributes,omitempty"`
	Events     []otlpEvent     `json:"events,omitempty"`
	Status     *otlpStatus     `json:"status,omitempty"`
}

type otlpAttribute struct {
	Key   string    `json:"key"`
	Value otlpValue `json:"value"`
}

// An otlpValue has one of its fields.
type otlpValue struct {
	String *string    `json:"stringValue,omitempty"`
	Int    string     `json:"intValue,omitempty"`
	Double *float64   `json:"doubleValue,omitempty"`
	Array  *otlpArray `json:"arrayValue,omitempty"`
}

type otlpArray struct {
	Values []otlpValue `json:"values"`
}

type otlpEvent struct {
	Time       string          `json:"timeUnixNano"`
	Name       string          `json:"name"`
	Attributes []otlpAttribute `json:"attributes,omitempty"`
}

type otlpStatus struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code"`
}

const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2

	flagSampled = 0x001
	flagKnown   = 0x100 // whether the parent is in another process is known,
	flagRemote  = 0x200 // and it is

	// maxStatusText is how much of an error is in a span, in cells.
	maxStatusText = 500
)

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func newSpan(c traceid.Context, parent, name string, kind int, start time.Time) *otlpSpan {
	s := &otlpSpan{TraceID: c.Trace, SpanID: c.Span, Parent: parent, Flags: flagKnown, Name: name, Kind: kind, Start: nanos(start)}
	if c.Sampled {
		s.Flags |= flagSampled
	}
	return s
}

func (s *otlpSpan) add(key string, value otlpValue) {
	s.Attributes = append(s.Attributes, otlpAttribute{key, value})
}

// text adds a text that is not empty.
func (s *otlpSpan) text(key, value string) {
	if value != "" {
		s.add(key, otlpValue{String: &value})
	}
}

func (s *otlpSpan) number(key string, value int) { s.add(key, otlpValue{Int: strconv.Itoa(value)}) }

func (s *otlpSpan) usage(u *agent.Usage) {
	if u == nil || u.Requests == 0 {
		return
	}
	s.number(attrInput, u.InputTokens)
	s.number(attrCached, u.CachedTokens)
	if u.CacheWriteTokens > 0 {
		s.number(attrCacheWrite, u.CacheWriteTokens)
	}
	s.number(attrOutput, u.OutputTokens)
	if u.ReasoningTokens > 0 {
		s.number(attrReasoning, u.ReasoningTokens)
	}
	if u.Priced > 0 || u.Cost > 0 {
		dollars := float64(u.Cost) / float64(agent.Dollar)
		s.add(attrCost, otlpValue{Double: &dollars})
	}
}

func (s *otlpSpan) fail(kind, text string) {
	s.text(attrError, kind)
	s.Status = &otlpStatus{Code: statusError, Message: termtext.Line(text, maxStatusText, "…")}
}

// otlpFrame is what precedes and follows the spans of a request, which are separated
// by commas. The resource is the program with its attributes.
func otlpFrame(resource map[string]string, version string) (begin, end string) {
	attributes := []otlpAttribute{}
	for _, key := range slices.Sorted(maps.Keys(resource)) {
		value := resource[key]
		attributes = append(attributes, otlpAttribute{key, otlpValue{String: &value}})
	}
	// Neither has anything that cannot be encoded.
	list, _ := json.Marshal(attributes)
	scope, _ := json.Marshal(map[string]string{"name": "github.com/agents-exe/agents", "version": version})
	begin = `{"resourceSpans":[{"resource":{"attributes":` + string(list) + `},"scopeSpans":[{"scope":` + string(scope) + `,"spans":[`
	return begin, `],"schemaUrl":"` + semconvSchema + `"}],"schemaUrl":"` + semconvSchema + `"}]}`
}
