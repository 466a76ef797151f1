package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"strconv"
)

const (
	chainStart = `,"chain":"`
	chainBytes = len(chainStart) + 2*sha256.Size + len(`"`)
)

// A link is the chain up to a line: the SHA-256 of the link before it, as 64 hexadecimal
// digits, and of the line without its end, which begins at ,"chain". The first line
// follows the zero link.
type link [sha256.Size]byte

// String returns the link as in a line.
func (l link) String() string { return hex.EncodeToString(l[:]) }

// ends is what the ends of the lines so far hold. Its zero value precedes the first line.
type ends struct {
	sum  uint32
	link link
	hash hash.Hash // reused, so that a line allocates nothing
}

// seal completes the line that begins at start in b and lacks its closing brace: it adds
// how much of the file is synced, unless that is negative, the chain and the checksum.
func (e *ends) seal(b []byte, start int, synced int64) []byte {
	if synced >= 0 {
		b = append(b, syncedStart...)
		b = strconv.AppendInt(b, synced, 10)
	}
	b = e.next(b, start)
	b = append(b, chainStart...)
	b = append(hex.AppendEncode(b, e.link[:]), '"')
	e.sum = crc32.Update(e.sum, crc32.IEEETable, b[start:])
	b = appendSum(append(b, sumStart...), e.sum)
	return append(b, "\"}\n"...)
}

// next moves the link over the line that begins at start in b and returns b. The end of b
// is used for intermediate results.
func (e *ends) next(b []byte, start int) []byte {
	if e.hash == nil {
		e.hash = sha256.New()
	}
	e.hash.Reset()
	end := len(b)
	b = hex.AppendEncode(b, e.link[:])
	e.hash.Write(b[end:])
	e.hash.Write(b[start:end])
	copy(e.link[:], e.hash.Sum(b[:end])[end:])
	return b[:end]
}

// cutChain splits the chain off a line without its checksum.
func cutChain(body []byte) (rest, chain []byte, ok bool) {
	n := max(0, len(body)-chainBytes)
	chain, ok = bytes.CutPrefix(body[n:], []byte(chainStart))
	if chain, end := bytes.CutSuffix(chain, []byte{'"'}); ok && end {
		return body[:n], chain, true
	}
	return body, nil, false
}

func (s *scanner) lastLink() (l link, err error) {
	end := make([]byte, min(int64(chainBytes+tailBytes+1), s.good))
	if _, err := s.r.ReadAt(end, s.good-int64(len(end))); err != nil {
		return l, err
	}
	body, _, _ := tail(bytes.TrimSuffix(end, []byte("\n")))
	if _, chain, ok := cutChain(body); ok {
		_, err := hex.Decode(l[:], chain)
		return l, err
	}
	// An earlier version wrote it. The chain begins behind its lines and covers them too.
	var e ends
	for in := newLines(s.r, 0, s.good); ; {
		line, _, err := in.next()
		if err == io.EOF {
			return e.link, nil
		}
		if err != nil {
			return l, err
		}
		body, _, _ := tail(line)
		body, _, _ = cutChain(body)
		e.next(bytes.Clone(body), 0)
	}
}

// A Verification is what the lines of a session prove. The chain shows every change after
// which nobody computed it anew, and only a signature shows all of them.
type Verification struct {
	// Lines is the number of valid lines and Chain the link of the last of them.
	Lines int    `json:"lines"`
	Chain string `json:"chain"`
	// Since is the first line with a link; 0 if no line has one, as in sessions of
	// earlier versions. Its link covers the lines before it too.
	Since int `json:"since"`
	// Closed reports whether the last line says that the journal was closed.
	Closed bool `json:"closed"`
	// CutBytes is the size of an incomplete end, as a process that was killed leaves it.
	CutBytes int64 `json:"cut_bytes"`
	// Signature is the signature beside the journal; nil if there is none.
	Signature *Signature `json:"signature,omitempty"`

	ends  ends
	links map[link]bool
}

// Has reports whether a text is the link of a valid line, so that who wrote it had all lines up
// to that one.
func (v *Verification) Has(chain string) bool {
	var l link
	n, err := hex.Decode(l[:], []byte(chain[:min(len(chain), 2*len(l))]))
	return err == nil && n == len(l) && v.links[l]
}

// Verify reads all lines and blobs of a session and verifies their chain. The error is a
// DamageError for the first line that was changed, inserted or moved, or that follows
// one that was removed; the Verification, if it is not nil, then describes the lines
// before it.
func Verify(path string) (*Verification, error) {
	v := &Verification{}
	var in *reader
	for _, err := range events(path, func(r *reader) { in, r.verify = r, v.line }) {
		if in == nil {
			return nil, err
		}
		if err != nil {
			return v, err
		}
	}
	v.CutBytes = in.cut
	return v, v.readSignature(in.path)
}

func (v *Verification) line(line []byte) error {
	body, _, _ := tail(line)
	body, chain, ok := cutChain(body)
	v.ends.next(bytes.Clone(body), 0)
	switch {
	case !ok && v.Since > 0:
		return errors.New("it has no chain, and the lines before it have one")
	case ok && v.ends.link.String() != string(chain):
		return errors.New("its chain does not match: it was changed, inserted or moved, or a line before it was removed")
	case ok && v.Since == 0:
		v.Since = v.Lines + 1
	}
	if v.Lines++; v.links == nil {
		v.links = map[link]bool{}
	}
	v.links[v.ends.link] = true
	v.Chain = v.ends.link.String()
	h, _ := headOf(line)
	v.Closed = h.is(kindClosed)
	return nil
}
