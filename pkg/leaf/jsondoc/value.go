package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode decodes one JSON value. Numbers become json.Number and keep their digits.
func Decode(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := decodeOne(dec, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// DecodeKnown decodes one JSON value. A member that to has no field for is an error.
func DecodeKnown(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	return decodeOne(dec, to)
}

func decodeOne(dec *json.Decoder, to any) error {
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF { // More is false before a bracket too
		return errors.New("there is more than one JSON value")
	}
	return nil
}

// Encode is json.Marshal, except that it does not escape <, > and &. With indent, each value is
// on a line of its own.
func Encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Format returns a JSON text with the keys of objects sorted: without spaces, or with each
// value on a line of its own if indent is set. A text that is not JSON is returned unchanged.
func Format(text, indent string) string {
	if v, err := Decode([]byte(text)); err == nil {
		if b, err := Encode(v, indent); err == nil {
			return string(b)
		}
	}
	return text
}
