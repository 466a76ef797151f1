package agent

// The protocols of Pass: chat completions and Responses of OpenAI, and Messages of Anthropic. No
// Provider sends generateContent of Gemini, which programs speak too.
const (
	ProtocolChat      = "chat"
	ProtocolResponses = "responses"
	ProtocolAnthropic = "anthropic"
	ProtocolGenerate  = "generate"
)

// A Pass is the request of another program, which a Provider of the same protocol sends as it is,
// in place of the request that it is part of: only the name of the model and the key are its own.
// The program gets the answer as the server sends it, and the Provider reads it too.
type Pass struct {
	Protocol string
	// Body is a JSON object, and Header has headers of the protocol beside those of every request.
	Body   []byte
	Header map[string]string
	// Write is called with each piece of an answer as it arrives. Its error ends the request. kind
	// is the type of the content.
	Write func(kind string, piece []byte) error
	// Refuse is called with the answer of a server that refuses the request, before Generate
	// returns the error.
	Refuse func(status int, kind string, body []byte)
	// Begun says that Write was called, so that no other answer can follow, and Whole that it had
	// all that the server sent.
	Begun, Whole bool
}

// A Passer is a Provider that sends a Pass of some protocols.
type Passer interface {
	Passes(protocol string) bool
}

// Passes reports whether p, or what it wraps, sends a Pass of a protocol.
func Passes(p Provider, protocol string) bool {
	passer, ok := As[Passer](p)
	return ok && passer.Passes(protocol)
}
