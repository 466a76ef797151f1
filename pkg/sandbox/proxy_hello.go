package sandbox

import (
	"errors"
	"io"
	"strings"
)

// errHello is what is wrong with a hello. The library's own reader would make the binary
// larger by a TLS server.
var errHello = errors.New("not a TLS hello")

// Extensions of a hello.
const (
	serverNameExtension = 0
	encryptedExtension  = 0xfe0d // RFC 9849
)

// readHello reads the first message of a TLS client, RFC 8446, 4.1.2, and nothing behind
// it. name is the server's, in lower case, and hidden reports an encrypted part.
func readHello(r io.Reader) (read []byte, name string, hidden bool, err error) {
	var message []byte
	for size := 4; len(message) < size; {
		header := make([]byte, 5)
		if _, err := io.ReadFull(r, header); err != nil {
			return nil, "", false, err
		}
		length := int(header[3])<<8 | int(header[4])
		if header[0] != 22 || header[1] != 3 || length == 0 || length > 1<<14 {
			return nil, "", false, errHello
		}
		record := make([]byte, length)
		if _, err := io.ReadFull(r, record); err != nil {
			return nil, "", false, err
		}
		read, message = append(append(read, header...), record...), append(message, record...)
		if len(message) >= 4 {
			size = 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		}
		if message[0] != 1 || size > 1<<16 || len(message) > size && size > 4 {
			return nil, "", false, errHello
		}
	}
	name, hidden, err = parseHello(message[4:])
	return read, name, hidden, err
}

func parseHello(body []byte) (name string, hidden bool, err error) {
	m := &fields{rest: body}
	m.take(2 + 32) // version and random
	m.vector(1)    // session
	m.vector(2)    // ciphers
	m.vector(1)    // compression
	extensions := m.vector(2)
	if m.short || len(m.rest) > 0 {
		return "", false, errHello
	}
	seen := map[int]bool{}
	for len(extensions.rest) > 0 && !extensions.short {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if seen[kind] {
			return "", false, errHello
		}
		seen[kind] = true
		switch kind {
		case encryptedExtension:
			hidden = true
		case serverNameExtension:
			list := data.vector(2)
			isHost := list.number(1) == 0
			host := list.vector(2)
			if data.short || list.short || len(data.rest)+len(list.rest) > 0 || !isHost {
				return "", false, errHello
			}
			name = strings.ToLower(string(host.rest))
		}
	}
	if extensions.short {
		return "", false, errHello
	}
	return name, hidden, nil
}

// fields reads the encoding of TLS. short says that there was less than was to be read.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	data := f.rest[:n]
	f.rest = f.rest[n:]
	return data
}

// number reads a number of so many bytes.
func (f *fields) number(size int) (n int) {
	for _, b := range f.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

// vector reads what has its length, of so many bytes, before it.
func (f *fields) vector(size int) *fields { return &fields{rest: f.take(f.number(size))} }
