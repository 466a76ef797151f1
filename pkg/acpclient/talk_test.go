package acpclient

import (
	"testing"
	"time"
)

func TestAnAgentCannotSendWithoutEnd(t *testing.T) {
	talk := &talk{limit: time.Hour, idle: time.NewTimer(time.Hour)}
	defer talk.idle.Stop()
	for range 2 {
		if err := talk.seen(maxBytes / 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := talk.seen(1); err == nil {
		t.Errorf("more than %d bytes are accepted", maxBytes)
	}
}
