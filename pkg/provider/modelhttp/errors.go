package modelhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

const (
	// maxErrorBytes is how much of a failed response is read.
	maxErrorBytes = 64 << 10
	// maxMessage is how much of its text is shown.
	maxMessage = 2000
)

// permanent are codes of failures that repeating does not help against, whatever
// their status: the quota is used up, or Groq cannot read the call that the model
// wrote.
var permanent = []string{
	"insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached", "billing_not_active",
	"tool_use_failed",
}

// temporary reports whether a request that failed with an HTTP status may succeed
// later. Errors without one come from servers that took the request. 529 is
// Anthropic's "overloaded".
func temporary(status int) bool {
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// tooLong reports whether a request failed because the conversation does not fit
// the model's context: servers have no common code for it.
func tooLong(status int, message string, codes ...string) bool {
	for _, code := range codes {
		switch code {
		case "context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded", "request_too_large":
			return true
		}
	}
	message = strings.ToLower(message)
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return true
	case status == 0, status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
	case status >= 500 && strings.Contains(message, "exceed"): // llama.cpp, in the middle of an answer
	default:
		return false
	}
	for _, words := range []string{
		"context length", "context_length", "context limit", "context window", "context size", "maximum number of tokens allowed",
		"prompt is too long", "prompt too long", "input is too long", "too large for model with",
		"maximum model length",          // vLLM
		"maximum prompt length",         // xAI
		"model token limit",             // Kimi
		"reduce the length of the mess", // Groq
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// Broken is the error for an incomplete answer.
func Broken(message string) error {
	return &agent.ModelError{Message: message, Temporary: true}
}

// A RefusedCall is in the error of a server that could not read the call that the
// model wrote.
type RefusedCall struct{ Written string }

func (e *RefusedCall) Error() string { return "the server refused the model's call: " + e.Written }

// ServerError is the error that a server sent: as the body of a response with an
// HTTP status, or with status 200 (0 here), where its code may be a status.
func ServerError(status int, body []byte) *agent.ModelError {
	d := explain(body)
	e := &agent.ModelError{Status: cmp.Or(status, d.status), Code: d.code}
	if d.code == strconv.Itoa(e.Status) {
		e.Code = ""
	}
	e.Message = cmp.Or(d.message, http.StatusText(e.Status), "the server sent an error without a text")
	e.TooLong = tooLong(e.Status, e.Message, d.code, d.kind)
	e.Temporary = temporary(e.Status) && !e.TooLong && !slices.Contains(permanent, d.code) && !slices.Contains(permanent, d.kind)
	if d.written != "" {
		e.Err = &RefusedCall{d.written}
	}
	return e
}

// IsError reports whether what a server sent is an error. "error": null does not make
// one, and the other members only do if it is not a piece of an answer.
func IsError(c Object, piece bool) bool {
	switch e := c.Get("error"); FirstByte(e) {
	case '{', '[':
		return len(e) > len("{}")
	case '"':
		return string(e) != `""`
	case 't':
		return true
	}
	if piece {
		return false
	}
	detail := FirstByte(c.Get("detail"))
	return Str(c.Get("object")) == "error" || FirstByte(c.Get("message")) == '"' || detail == '"' || detail == '[' || detail == '{'
}

// refused returns the error for a response with a status other than 2xx. From status 400 on, the
// program that made the request gets it too. Secrets are removed before the message is shortened.
func (x *Exchange) refused(res *http.Response) *agent.ModelError {
	if res.StatusCode < 400 { // a redirect is not passed on
		return &agent.ModelError{Status: res.StatusCode, Message: httphost.Reason(res)}
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	body = x.secrets.Bytes(body)
	if x.pass != nil {
		x.pass.Refuse(res.StatusCode, x.kind, body)
	}
	e := ServerError(res.StatusCode, body)
	e.RetryAfter = retryAfter(res.Header, time.Now())
	return e
}

// retryAfter is how long a server asks to wait: seconds or a date (RFC 9110,
// section 10.2.3), or milliseconds in a header of OpenAI's.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	for _, form := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if f, err := strconv.ParseFloat(h.Get(form.name), 64); err == nil && f > 0 {
			return time.Duration(min(f*float64(form.unit), float64(most)))
		}
	}
	if t, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return min(max(t.Sub(now), 0), most)
	}
	return 0
}

// details are what an error says.
type details struct {
	message string
	code    string // the code, or the type where there is none
	kind    string // the type
	status  int    // an HTTP status in place of a code
	written string // Groq: the call that the model wrote
}

// explain finds the details in a body of any form. They are empty if there is
// nothing.
func explain(body []byte) (d details) {
	body = bytes.TrimSpace(body)
	switch {
	case FirstByte(body) == '<':
		return details{message: Shorten(stripTags(string(body)), 300)}
	case CheckJSON(body) != nil:
		return details{message: Shorten(string(body), maxMessage)}
	}
	if list := Elements(body); len(list) > 0 {
		body = list[0] // Gemini
	}
	d = explainValue(body, 0)
	d.message = Shorten(cmp.Or(d.message, string(body)), maxMessage)
	d.code = Shorten(d.code, 100)
	return d
}

// explainValue reads at most five levels.
func explainValue(raw []byte, depth int) (d details) {
	switch first := FirstByte(raw); {
	case depth > 4:
	case first == '"':
		d.message = Str(raw)
	case first == '[':
		var all []string
		for _, element := range Elements(raw) {
			if message := explainValue(element, depth+1).message; message != "" {
				all = append(all, message)
			}
		}
		d.message = strings.Join(all, "; ")
	case first == '{':
		d = explainObject(ObjectOf(raw), depth)
	}
	return d
}

func explainObject(o Object, depth int) (d details) {
	for _, name := range []string{"error", "message", "detail", "msg", "errors"} {
		if d = explainValue(o.Get(name), depth+1); d.message != "" {
			break
		}
	}
	// OpenRouter quotes the server that failed.
	raw := explainValue(ObjectOf(o.Get("metadata")).Get("raw"), depth+1).message
	if raw != "" && raw != d.message {
		d.message += ": " + raw
	}
	// FastAPI names the place: ["body","tools",0].
	var place []string
	for _, l := range Elements(o.Get("loc")) {
		place = append(place, Word(l))
	}
	if len(place) > 0 && d.message != "" {
		d.message = strings.Join(place, ".") + ": " + d.message
	}
	d.kind = cmp.Or(d.kind, Str(o.Get("type")))
	d.code = cmp.Or(d.code, Word(o.Get("code")), Str(o.Get("type")), Str(o.Get("status")))
	d.written = cmp.Or(d.written, Str(o.Get("failed_generation")))
	for _, name := range []string{"code", "status_code"} { // the latter is Groq's
		if n := Number([]byte(Word(o.Get(name)))); d.status == 0 && n >= 400 && n < 600 {
			d.status = n
		}
	}
	return d
}

func stripTags(page string) string {
	var b strings.Builder
	for page != "" {
		text, rest, _ := strings.Cut(page, "<")
		b.WriteString(text + " ")
		tag, after, _ := strings.Cut(rest, ">")
		page = after
		for _, hidden := range []string{"script", "style"} {
			if name, _, _ := strings.Cut(strings.ToLower(tag), " "); name == hidden {
				_, page, _ = strings.Cut(page, "</"+hidden)
				_, page, _ = strings.Cut(page, ">")
			}
		}
	}
	return html.UnescapeString(b.String())
}

// connectionError is the error for a request that got no response, or whose
// response could not be read. It does not contain the URL: a query may hold a key.
func connectionError(host string, err error) *agent.ModelError {
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		err = inURL.Err
	}
	e := &agent.ModelError{Message: host + ": " + err.Error(), Temporary: true, Err: err}
	dns, _ := errors.AsType[*net.DNSError](err)
	large, _ := errors.AsType[*http.MaxBytesError](err)
	switch {
	case dns != nil && dns.IsNotFound:
		e.Message, e.Temporary = fmt.Sprintf("there is no host %s", dns.Name), false
	case isA[*tls.CertificateVerificationError](err), isA[x509.UnknownAuthorityError](err), isA[x509.HostnameError](err), isA[x509.CertificateInvalidError](err):
		e.Message, e.Temporary = fmt.Sprintf("the certificate of %s cannot be trusted: %v", host, err), false
	case isA[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		e.Message, e.Temporary = fmt.Sprintf("%s does not speak TLS; is its URL http instead of https?", host), false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE):
		// The last two are of a request that was still being sent.
		e.Message = host + " closed the connection before the end of the answer"
	case large != nil:
		e.Message, e.Temporary = fmt.Sprintf("the answer is longer than %d bytes (the limit of one answer)", large.Limit), false
	case errors.Is(err, context.DeadlineExceeded):
		e.Err = nil // a timeout of the network is not the end of the run's time
	}
	return e
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
