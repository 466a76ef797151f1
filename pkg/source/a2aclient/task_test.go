package a2aclient

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// An event of another task is refused, whatever its kind, and changes nothing.
func TestEventsOfAnotherTaskAreRefused(t *testing.T) {
	status := a2a.TaskStatus{State: a2a.TaskStateCompleted}
	for name, event := range map[string]func(id a2a.TaskID) a2a.Event{
		"task":   func(id a2a.TaskID) a2a.Event { return &a2a.Task{ID: id, Status: status} },
		"status": func(id a2a.TaskID) a2a.Event { return &a2a.TaskStatusUpdateEvent{TaskID: id, Status: status} },
		"artifact": func(id a2a.TaskID) a2a.Event {
			return &a2a.TaskArtifactUpdateEvent{TaskID: id, Artifact: &a2a.Artifact{}}
		},
		"message": func(id a2a.TaskID) a2a.Event { return &a2a.Message{TaskID: id} },
	} {
		own := &task{info: a2a.TaskInfo{TaskID: "mine"}}
		if err := own.apply(event("other")); err == nil || own.info.TaskID != "mine" || own.answer != nil || own.state == status.State || own.artifacts != nil {
			t.Errorf("%s of another task: error %v, and the task is %+v", name, err, own)
		}
		if err := own.apply(event("mine")); err != nil {
			t.Errorf("%s of the task itself: %v", name, err)
		}
	}
}
