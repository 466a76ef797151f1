package openaiapi

import "time"

const MaxQueued = maxQueued

// WaitAlone waits until no client follows a request, WaitFollowed until each has one, and WaitDone
// until all have a reply.
func (h *Handler) WaitAlone() { h.waitUntil(func(x *exchange) bool { return x.followers == 0 }) }

func (h *Handler) WaitFollowed() { h.waitUntil(func(x *exchange) bool { return x.followers > 0 }) }

func (h *Handler) WaitDone() { h.waitUntil(func(x *exchange) bool { return x.done }) }

func (h *Handler) waitUntil(is func(x *exchange) bool) {
	for {
		h.mu.Lock()
		n := 0
		for _, x := range h.exchanges {
			if !is(x) {
				n++
			}
		}
		h.mu.Unlock()
		if n == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// StoredBytes is what is counted for the stored responses.
func (h *Handler) StoredBytes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}

// WaitClosed waits until Close has begun.
func (h *Handler) WaitClosed() {
	for closed := false; !closed; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		closed = h.closed
		h.mu.Unlock()
	}
}

// WaitSockets waits until no WebSocket connection is open.
func (h *Handler) WaitSockets() { h.serving.Wait() }
