package admission

import (
	"io"
	"net/http"
	"time"
)

// LimitBody gives the body of a request a time limit: after it, reads fail and the server
// closes the connection. It is called before the request is handled in any way, because
// net/http reads what a handler has left of a body, for as long as that takes.
func LimitBody(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.ContentLength == 0 {
		return // the request would end with the deadline
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(limit)) // tests have none
	r.Body = &body{r.Body, control}
}

// A body resets the deadline at its end: the server would otherwise end the request when it
// has passed. After other errors it stays.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
