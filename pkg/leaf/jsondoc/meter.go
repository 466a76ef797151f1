package jsondoc

import "fmt"

// The limits of a Meter are enough for a history of many thousands of messages, or a large table
// of numbers.
const (
	MaxValues     = 1_000_000
	MaxContainers = 250_000
)

// A Meter counts the values of a JSON text while it is read, so that a text that would take many
// times its length in memory is refused before it is decoded: an empty object has two bytes, and
// takes a few hundred when it is decoded. The zero value is ready to use. It does not check the
// syntax.
type Meter struct {
	values, containers int
	quoted, escaped    bool
}

// A MeterError says that a text has more values than a Meter allows.
type MeterError struct {
	// What is what the text has too many of, and Max is the limit.
	What string
	Max  int
}

func (e *MeterError) Error() string {
	return fmt.Sprintf("the JSON text has more than %d %s", e.Max, e.What)
}

// StatusCode is that of an HTTP response to a request with the text.
func (e *MeterError) StatusCode() int { return 413 }

// Write counts the values in the next bytes of the text. The error is a *MeterError.
func (m *Meter) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case m.escaped:
			m.escaped = false
		case m.quoted:
			m.escaped, m.quoted = c == '\\', c != '"'
		case c == '"':
			m.quoted = true
		case c == ',':
			m.values++
		case c == '{' || c == '[':
			m.containers++
		}
	}
	switch {
	case m.containers > MaxContainers:
		return 0, &MeterError{"lists and objects", MaxContainers}
	case m.Values() > MaxValues:
		return 0, &MeterError{"values", MaxValues}
	}
	return len(p), nil
}

// Values returns how many values it has counted.
func (m *Meter) Values() int { return m.values + m.containers }

// Measure returns the error of a Meter for a whole text.
func Measure(text []byte) error {
	if len(text) <= MaxContainers { // a value has a byte at least
		return nil
	}
	_, err := new(Meter).Write(text)
	return err
}
