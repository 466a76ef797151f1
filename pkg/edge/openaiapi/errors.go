package openaiapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// An apiError is an error in OpenAI's form.
type apiError struct {
	status int
	retry  time.Duration // of Retry-After
	final  bool          // the client must not send the request again by itself
	Text   string        `json:"message"`
	Type   string        `json:"type"`
	Param  *string       `json:"param"`
	Code   *string       `json:"code"`
}

func (e *apiError) Error() string { return e.Text }

func (e *apiError) as(status int) *apiError {
	e.status = status
	return e
}

// invalid is an error of the request. param names what is wrong in it.
func invalid(param, code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, Type: "invalid_request_error", Param: text(param), Code: text(code), Text: fmt.Sprintf(format, args...)}
}

// stopping is the error of a request that arrives when the server ends.
func stopping() *apiError {
	return &apiError{status: http.StatusServiceUnavailable, Type: "server_error", Text: "the server is stopping"}
}

func tooLarge(limit int64) *apiError {
	return invalid("", "request_too_large", "the request is longer than %d bytes", limit).as(http.StatusRequestEntityTooLarge)
}

func missing(param string) *apiError {
	return invalid(param, "missing_required_parameter", "%s is missing", param)
}

func unsupported(param, format string, args ...any) *apiError {
	return invalid(param, "unsupported_parameter", param+": "+format, args...)
}

// asAPIError returns err as one for the client.
func asAPIError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	e := &apiError{status: http.StatusInternalServerError, Type: "server_error", Text: err.Error()}
	var known interface{ StatusCode() int }
	if errors.As(err, &known) {
		e.status = known.StatusCode()
	}
	var later interface{ RetryAfter() time.Duration }
	if errors.As(err, &later) {
		e.retry = later.RetryAfter()
	}
	switch {
	case e.status == http.StatusTooManyRequests:
		e.Type, e.Code = "rate_limit_error", text("rate_limit_exceeded")
	case e.status < 500:
		e.Type = "invalid_request_error"
	}
	return e
}

func writeError(w http.ResponseWriter, err error) { writeErrorAs(w, err, errorObject) }

// errorObject returns an error in OpenAI's form.
func errorObject(e *apiError) object { return object{"error": e} }

// writeErrorAs writes an error in the form of a protocol.
func writeErrorAs(w http.ResponseWriter, err error, form func(*apiError) object) {
	e := asAPIError(err)
	if e.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retry.Seconds()))))
	}
	if e.final { // the libraries of OpenAI repeat a request after many errors
		w.Header().Set("X-Should-Retry", "false")
	}
	writeJSON(w, e.status, form(e))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	_ = writeBody(w, status, encode(v)) // a client that is gone reads nothing
}

// writeBody writes a response in JSON, of which the last part may still be buffered.
func writeBody(w http.ResponseWriter, status int, data []byte) error {
	w.Header().Set("Content-Type", kindJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	_, err := w.Write(data)
	return err
}

type object map[string]any

// usage is u in the words of an API: "prompt" and "completion", or "input" and "output".
func usage(u agent.Usage, in, out string) object {
	return object{
		in + "_tokens": u.InputTokens, in + "_tokens_details": object{"cached_tokens": u.CachedTokens},
		out + "_tokens": u.OutputTokens, out + "_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
		"total_tokens": u.InputTokens + u.OutputTokens,
	}
}

// text is null for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// given reports whether a parameter has a value.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// encode returns v as JSON with a line end. All values of this package can be encoded.
func encode(v any) []byte {
	data, err := jsondoc.Encode(v, "")
	if err != nil {
		data = []byte("null")
	}
	return append(data, '\n')
}
