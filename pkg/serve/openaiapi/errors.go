package openaiapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// invalid is an error of the request. param names what is wrong in it.
func invalid(param, code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, Type: "invalid_request_error", Param: text(param), Code: text(code), Text: fmt.Sprintf(format, args...)}
}

func missing(param string) *apiError {
	return invalid(param, "missing_required_parameter", "%s is missing", param)
}

func unsupported(param, format string, args ...any) *apiError {
	return invalid(param, "unsupported_parameter", param+": "+format, args...)
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
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null\n")
	}
	return b.Bytes()
}
