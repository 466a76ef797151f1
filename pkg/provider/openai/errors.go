package openai

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
)

const (
	// maxErrorBytes is how much of a failed response is read.
	maxErrorBytes = 64 << 10
	// maxMessage is how much of its text is shown.
	maxMessage = 2000
)

// quota are codes of a 429 that no wait helps against: the money is spent.
var quota = []string{"insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached", "billing_not_active"}

// temporary reports whether a request that failed with an HTTP status and a code
// of the provider may succeed later. 529 is Anthropic's "overloaded".
func temporary(status int, code string) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict:
		return true
	case http.StatusTooManyRequests:
		return !slices.Contains(quota, code)
	}
	return status >= 500
}

// tooLong reports whether a request failed because the conversation does not fit
// the model's context: servers have no common code for it.
func tooLong(status int, message, code string) bool {
	switch code {
	case "context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded":
		return true
	}
	if status != 0 && status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge && status != http.StatusUnprocessableEntity {
		return false
	}
	message = strings.ToLower(message)
	for _, words := range []string{
		"context length", "context_length", "context window", "context size", "maximum number of tokens allowed",
		"prompt is too long", "prompt too long", "input is too long", "too large for model with",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// broken is the error for an answer that came in part.
func broken(message string) error {
	return &agent.ModelError{Message: message, Temporary: true}
}

// answerError is the error that a server sent in place of an answer, with status
// 200 or within a stream. It is temporary unless its code is an HTTP status that
// is not.
func answerError(data []byte) error {
	message, code := explain(data)
	e := &agent.ModelError{Message: cmp.Or(message, "the server sent an error without a text"), Code: code, Temporary: true}
	if status, err := strconv.Atoi(code); err == nil && status >= 400 && status < 600 {
		e.Status, e.Code = status, ""
		e.Temporary = temporary(status, "")
	}
	if e.TooLong = tooLong(e.Status, e.Message, code); e.TooLong || slices.Contains(quota, code) {
		e.Temporary = false
	}
	return e
}

// httpError is the error for a response with a status other than 2xx.
func httpError(res *http.Response, now time.Time) *agent.ModelError {
	if res.StatusCode < 400 {
		return redirectError(res)
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBytes))
	message, code := explain(body)
	if code == strconv.Itoa(res.StatusCode) {
		code = ""
	}
	return &agent.ModelError{
		Status:     res.StatusCode,
		Code:       code,
		Message:    cmp.Or(message, http.StatusText(res.StatusCode), "no text"),
		Temporary:  temporary(res.StatusCode, code),
		TooLong:    tooLong(res.StatusCode, message, code),
		RetryAfter: retryAfter(res.Header, now),
	}
}

func redirectError(res *http.Response) *agent.ModelError {
	e := &agent.ModelError{Status: res.StatusCode, Message: "the server sent a redirect without a place to go to"}
	to, err := res.Location()
	switch {
	case err != nil:
	case to.Host != res.Request.URL.Host || to.Scheme != res.Request.URL.Scheme:
		e.Message = fmt.Sprintf("%s redirects to another server, %s://%s; this is not followed, so that no key goes there", res.Request.URL.Host, to.Scheme, to.Host)
	default:
		e.Message = fmt.Sprintf("%s redirects to %s in a way that drops the request", res.Request.URL.Host, to.Path)
	}
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

// explain finds the provider's own words and code in a body of whatever form.
// Both are empty if there is nothing.
func explain(body []byte) (message, code string) {
	body = bytes.TrimSpace(body)
	switch firstByte(body) {
	case '<':
		return shorten(stripTags(string(body)), 300), ""
	case '[':
		if list := elements(body); len(list) > 0 {
			body = list[0] // Gemini
		}
	}
	if !json.Valid(body) {
		return shorten(string(body), maxMessage), ""
	}
	message, code = explainObject(body, 0)
	return shorten(cmp.Or(message, string(body)), maxMessage), shorten(code, 100)
}

// An errorBody is what error objects hold, all in the forms that servers give
// them.
type errorBody struct {
	Error    json.RawMessage `json:"error"`
	Message  json.RawMessage `json:"message"`
	Detail   json.RawMessage `json:"detail"`
	Msg      json.RawMessage `json:"msg"`
	Loc      []any           `json:"loc"`
	Errors   json.RawMessage `json:"errors"`
	Code     json.RawMessage `json:"code"`
	Type     str             `json:"type"`
	Status   str             `json:"status"`
	Metadata struct {
		Raw json.RawMessage `json:"raw"` // OpenRouter: the words of who failed
	} `json:"metadata"`
}

// explainObject goes at most a few levels deep: each reads again what is in it.
func explainObject(raw json.RawMessage, depth int) (message, code string) {
	switch first := firstByte(raw); {
	case depth > 4:
		return "", ""
	case first == '"':
		var s str
		_ = s.UnmarshalJSON(bytes.TrimSpace(raw))
		return string(s), ""
	case first == '[':
		var all []string
		for _, element := range elements(raw) {
			if said, _ := explainObject(element, depth+1); said != "" {
				all = append(all, said)
			}
		}
		return strings.Join(all, "; "), ""
	case first != '{':
		return "", ""
	}
	var b errorBody
	if decodeJSON(raw, &b) != nil {
		return "", ""
	}
	for _, inner := range []json.RawMessage{b.Error, b.Message, b.Detail, b.Msg, b.Errors} {
		if message, code = explainObject(inner, depth+1); message != "" {
			break
		}
	}
	if more, _ := explainObject(b.Metadata.Raw, depth+1); more != "" && more != message {
		message += ": " + more
	}
	if len(b.Loc) > 0 && message != "" {
		message = location(b.Loc) + ": " + message
	}
	return message, cmp.Or(code, codeOf(&b))
}

func codeOf(b *errorBody) string {
	switch first := firstByte(b.Code); {
	case first == '"':
		var s str
		_ = s.UnmarshalJSON(bytes.TrimSpace(b.Code))
		if s != "" {
			return string(s)
		}
	case first >= '0' && first <= '9':
		return string(bytes.TrimSpace(b.Code))
	}
	return string(cmp.Or(b.Type, b.Status))
}

// location names the place of an error as FastAPI gives it: ["body","tools",0].
func location(loc []any) string {
	var path []string
	for _, l := range loc {
		path = append(path, fmt.Sprint(l))
	}
	return strings.Join(path, ".")
}

// stripTags is the text of an HTML page.
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
// response could not be read. The URL is not in it: a query may hold a key.
func connectionError(host string, err error) *agent.ModelError {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	e := &agent.ModelError{Message: host + ": " + err.Error(), Temporary: true, Err: err}
	var (
		dns      *net.DNSError
		verify   *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Message, e.Temporary = fmt.Sprintf("there is no host %s", dns.Name), false
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		e.Message, e.Temporary = fmt.Sprintf("the certificate of %s cannot be trusted: %v", host, err), false
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.Message, e.Temporary = fmt.Sprintf("%s does not speak TLS; is its URL http instead of https?", host), false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE):
		// The last two are of a request that was still being sent.
		e.Message = host + " closed the connection before the end of the answer"
	case errors.Is(err, context.DeadlineExceeded):
		e.Err = nil // a timeout of the network is not the end of the run's time
	}
	return e
}
