package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// TraceOptions set where spans go.
type TraceOptions struct {
	// W gets one Write for each span, when it ends: a line with an object of OTLP
	// in JSON. Nil means none.
	W io.Writer
	// URL of an OTLP receiver, to which spans are posted in JSON; "" means none.
	// Spans of a trace that its caller does not sample are not posted.
	URL  string
	HTTP HTTPOptions
	// Resource describes the program, as service.name does, and Version is its
	// version.
	Resource map[string]string
	Version  string
}

// A Trace turns events into OpenTelemetry spans: invoke_agent for a run of an agent,
// chat for a model request, execute_tool for a call. It needs only the events. Those of
// several sessions, of sub-agents and of agents in other processes may be mixed, as long
// as the events of each session are in order and a caller's session begins first. The
// ids of spans come from package traceid, so processes that each export a part of a tree
// export one trace.
//
// The usage of invoke_agent is that of the run with its sub-agents. Contents of
// messages, arguments and results are not exported.
type Trace struct {
	w          io.Writer
	http       *HTTP
	begin, end string // of a line
	err        error  // of w

	sessions map[string]*traced
	now      time.Time // of the last event
}

// traced is a session with a run or calls in progress.
type traced struct {
	context traceid.Context // with the span that the session is part of; "" if none
	remote  bool            // another process named that span
	parent  string          // Key of the call that the session answers
	run     *otlpSpan
	runID   string
	before  agent.Usage // what the run consumed before its resume: earlier spans have it
	chat    *otlpSpan   // a model request,
	sum     *otlpSpan   // and one for a summary
	failure *agent.Event
	calls   map[string]*tracedCall
	model   string
	flavor  string
}

type tracedCall struct {
	span    *otlpSpan // nil before it starts
	refused bool
	status  agent.Status // of the agent that it runs
}

// otlpBatch is the number of spans in one request, and otlpWait how long the first
// of them waits for others.
const (
	otlpBatch = 512
	otlpWait  = time.Second
)

// OpenTrace returns an exporter of spans. The caller must close it.
func OpenTrace(opts TraceOptions) (*Trace, error) {
	t := &Trace{w: opts.W, sessions: map[string]*traced{}}
	t.begin, t.end = otlpFrame(opts.Resource, opts.Version)
	if opts.URL == "" {
		return t, nil
	}
	opts.HTTP.Batch = cmp.Or(opts.HTTP.Batch, otlpBatch)
	var err error
	t.http, err = openHTTP(opts.URL, opts.HTTP, form{what: "spans", mime: "application/json", begin: t.begin, end: t.end, between: ",", wait: otlpWait})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Close ends open spans and sends queued ones, for at most HTTPOptions.Wait. The error
// is the first of W, and how many spans were lost. Observe must not be called
// afterwards.
func (t *Trace) Close() error {
	for _, id := range slices.Sorted(maps.Keys(t.sessions)) {
		t.abandon(id, t.now)
	}
	if t.http == nil {
		return t.err
	}
	return errors.Join(t.err, t.http.Close())
}

// Observe takes an event. It never waits for the receiver, and must not be called
// concurrently with itself.
func (t *Trace) Observe(e agent.Event) {
	switch e.Kind {
	case agent.EventText, agent.EventReasoning, agent.EventProgress, agent.EventWarning, agent.EventLog:
		return
	}
	t.now = e.Time
	switch e.Kind {
	case agent.EventMessage:
		if !e.Opening && !e.Closing && e.Attempt == 0 && e.Message != nil && e.Message.Role == agent.RoleUser {
			t.beginRun(e)
		}
	case agent.EventResume:
		t.beginRun(e)
	case agent.EventEnd:
		t.endRun(e)
	case agent.EventVerdict, agent.EventCallStarted, agent.EventCallEnded:
		t.call(e)
	default:
		if s := t.sessions[e.Session]; s != nil && s.run != nil {
			t.request(s, e)
		}
	}
}

// session returns the session of e, a new one if nothing of it is in progress.
func (t *Trace) session(e agent.Event) *traced {
	s := t.sessions[e.Session]
	if s != nil {
		return s
	}
	s = &traced{parent: e.Parent, calls: map[string]*tracedCall{}}
	outside, given := traceid.Parse(e.Traceparent)
	switch up := t.sessions[agent.CallSession(e.Parent)]; {
	case given:
		s.context, s.remote = outside, true
	case up != nil:
		s.context = up.context
		s.context.Span = traceid.Call(e.Parent)
	default:
		s.context = traceid.Root(e.Session)
	}
	t.sessions[e.Session] = s
	return s
}

// span begins a span of the session, below its run.
func (s *traced) span(e agent.Event, id, name string, kind int, start time.Time) *otlpSpan {
	c, parent := s.context, cmp.Or(s.runID, s.context.Span)
	c.Span = id
	span := newSpan(c, parent, name, kind, start)
	if s.remote && s.runID == "" {
		span.Flags |= flagRemote
	}
	span.text(attrConversation, e.Session)
	span.text(attrAgent, e.Agent)
	return span
}

// beginRun begins the span of a run. A message during the run belongs to it, and so does
// a run that another process resumes.
func (t *Trace) beginRun(e agent.Event) {
	s := t.session(e)
	if s.run != nil {
		return
	}
	id := traceid.Run(e.Session, e.Turn-e.RunTurns)
	s.run = s.span(e, id, opAgent+" "+e.Agent, kindInternal, e.Time)
	s.before = agent.Usage{}
	if e.Kind == agent.EventResume && e.Total != nil {
		s.before = e.Total.Usage
	}
	s.run.text(attrOperation, opAgent)
	s.runID = id
}

func (t *Trace) endRun(e agent.Event) {
	s := t.sessions[e.Session]
	if s == nil || s.run == nil {
		return
	}
	t.endRequests(s, cmp.Or(string(e.Status), errorUnknown), e.Error)
	s.run.text(attrProvider, providerName(s.flavor))
	s.run.text(attrModel, s.model)
	s.run.text(attrStatus, string(e.Status))
	if e.Total != nil {
		usage := e.Total.Usage.Sub(s.before)
		s.run.usage(&usage)
	}
	if e.Status != agent.StatusOK && e.Status != agent.StatusPartial {
		s.run.fail(string(e.Status), e.Error)
	}
	if up := t.sessions[agent.CallSession(s.parent)]; up != nil && up.calls[s.parent] != nil {
		up.calls[s.parent].status = e.Status
	}
	t.export(s.run, e.Time)
	s.run = nil
	t.forget(e.Session)
}

// request takes an event of a model request of the run.
func (t *Trace) request(s *traced, e agent.Event) {
	switch e.Kind {
	case agent.EventRequest:
		t.beginRequest(s, e)
	case agent.EventRetry:
		span := s.chat
		if s.sum != nil {
			span = s.sum
		}
		if span != nil {
			retry := otlpSpan{}
			retry.text(attrReason, termtext.Line(e.Error, maxStatusText, "…"))
			retry.number(attrWait, int(e.Millis))
			retry.text(attrFallback, e.Fallback)
			span.Events = append(span.Events, otlpEvent{nanos(e.Time), eventRetry, retry.Attributes})
		}
	case agent.EventAnswer:
		if s.chat != nil {
			s.chat.text(attrAnswered, e.Model)
			s.chat.text(attrFallback, e.Fallback)
			finish := string(e.Finish)
			s.chat.add(attrFinish, otlpValue{Array: &otlpArray{[]otlpValue{{String: &finish}}}})
			s.chat.usage(e.Usage)
		}
		t.endRequests(s, "", "")
	case agent.EventCompaction, agent.EventFailure:
		failed := e.Kind == agent.EventFailure
		switch {
		case s.sum != nil:
			s.sum.usage(e.Usage)
			if failed {
				s.sum.fail(errorKind(e), e.Error)
			}
			t.export(s.sum, e.Time)
			s.sum = nil
		case failed && e.TooLong: // the request is repeated if the conversation can be shortened
			s.failure = &e
		case failed:
			if s.chat != nil {
				s.chat.usage(e.Usage)
			}
			t.endRequests(s, errorKind(e), e.Error)
		}
	}
}

// beginRequest begins the span of a model request. One that is repeated with a
// shorter conversation continues its span.
func (t *Trace) beginRequest(s *traced, e agent.Event) {
	s.model, s.flavor = e.Model, e.Flavor
	at, id := &s.chat, traceid.Model(e.Session, e.Turn)
	if e.Summary {
		at, id = &s.sum, traceid.Summary(e.Session, e.Turn)
	} else {
		s.failure = nil
	}
	if *at != nil {
		return
	}
	*at = s.span(e, id, strings.TrimSpace(opChat+" "+e.Model), kindClient, e.Time)
	(*at).text(attrOperation, opChat)
	(*at).text(attrProvider, providerName(e.Flavor))
	(*at).text(attrModel, e.Model)
}

// errorKind is the error.type of a request that failed.
func errorKind(e agent.Event) string { return cmp.Or(e.Code, string(e.Status)) }

// endRequests ends the model requests of the session that are open. An empty kind of
// error is success.
func (t *Trace) endRequests(s *traced, kind, text string) {
	if s.failure != nil && kind != "" {
		kind, text = errorKind(*s.failure), s.failure.Error
	}
	for _, at := range []**otlpSpan{&s.sum, &s.chat} {
		if *at == nil {
			continue
		}
		if kind != "" {
			(*at).fail(kind, text)
		}
		t.export(*at, t.now)
		*at = nil
	}
	s.failure = nil
}

// call takes an event of a tool call. A call that was refused never starts.
func (t *Trace) call(e agent.Event) {
	s := t.session(e)
	c := s.calls[e.Key]
	if c == nil {
		c = &tracedCall{}
		s.calls[e.Key] = c
	}
	switch e.Kind {
	case agent.EventVerdict:
		c.refused = e.Decision != agent.Allow
	case agent.EventCallStarted:
		c.span = s.toolSpan(e, e.Time)
	case agent.EventCallEnded:
		t.abandonBelow(e.Key, e.Time)
		t.endCall(s, c, e)
		delete(s.calls, e.Key)
		t.forget(e.Session)
	}
}

// toolSpan begins the span of a call.
func (s *traced) toolSpan(e agent.Event, start time.Time) *otlpSpan {
	span := s.span(e, traceid.Call(e.Key), opTool+" "+e.Tool, kindInternal, start)
	span.text(attrOperation, opTool)
	span.text(attrTool, e.Tool)
	span.text(attrCallID, e.CallID)
	span.text(attrKey, e.Key)
	return span
}

func (t *Trace) endCall(s *traced, c *tracedCall, e agent.Event) {
	if c.span == nil {
		c.span = s.toolSpan(e, e.Time.Add(-time.Duration(e.Millis)*time.Millisecond))
	}
	if e.Receipt != nil {
		counts := *e.Receipt
		counts.Commands, counts.Files = nil, nil // a trace has no content
		if text, err := json.Marshal(&counts); err == nil {
			c.span.text(attrReceipt, string(text))
		}
	}
	if e.Result == nil || e.Result.Failed {
		kind := errorTool
		switch {
		case c.refused:
			kind = string(agent.StatusRefused)
		case c.status != "" && c.status != agent.StatusOK:
			kind = string(c.status)
		}
		c.span.fail(kind, "")
	}
	t.export(c.span, e.Time)
}

// abandonBelow ends the open spans of the sessions that a call began: the process that
// ran them may have died.
func (t *Trace) abandonBelow(key string, at time.Time) {
	for id, s := range t.sessions {
		if s.parent == key {
			t.abandon(id, at)
		}
	}
}

// abandon ends the open spans of a session whose end is not known.
func (t *Trace) abandon(id string, at time.Time) {
	s := t.sessions[id]
	if s == nil {
		return
	}
	delete(t.sessions, id)
	for _, key := range slices.Sorted(maps.Keys(s.calls)) {
		t.abandonBelow(key, at)
		if span := s.calls[key].span; span != nil {
			span.fail(errorUnknown, "")
			t.export(span, at)
		}
	}
	t.endRequests(s, errorUnknown, "")
	if s.run != nil {
		s.run.text(attrProvider, providerName(s.flavor))
		s.run.text(attrModel, s.model)
		s.run.fail(errorUnknown, "")
		t.export(s.run, at)
	}
}

// forget drops a session if nothing of it is in progress.
func (t *Trace) forget(id string) {
	if s := t.sessions[id]; s != nil && s.run == nil && len(s.calls) == 0 {
		delete(t.sessions, id)
	}
}

// A Span is one of an operation around the events: its ids, those of its parent, and what it
// was. An Error that is not "" makes it one of an operation that failed.
type Span struct {
	Context    traceid.Context
	Parent     string
	Name       string
	Start, End time.Time
	Attributes map[string]string
	Error      string
}

// Add exports a span. It must not be called concurrently with Observe.
func (t *Trace) Add(s Span) {
	span := newSpan(s.Context, s.Parent, s.Name, kindInternal, s.Start)
	for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
		span.text(key, s.Attributes[key])
	}
	if s.Error != "" {
		span.fail(errorUnknown, s.Error)
	}
	t.export(span, s.End)
}

// export ends a span and writes or queues it.
func (t *Trace) export(span *otlpSpan, end time.Time) {
	span.End = max(nanos(end), span.Start)
	line, err := json.Marshal(span)
	if err != nil {
		t.err = cmp.Or(t.err, fmt.Errorf("encode span %s: %w", span.SpanID, err))
		return
	}
	if t.w != nil && t.err == nil {
		_, t.err = io.WriteString(t.w, t.begin+string(line)+t.end+"\n")
	}
	if t.http != nil && span.Flags&flagSampled != 0 {
		t.http.add(line, agent.Event{})
	}
}
