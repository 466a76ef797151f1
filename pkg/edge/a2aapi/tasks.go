package a2aapi

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
)

// tasks is a store that drops the oldest tasks. It has two stores; when the younger one is
// full, the older one is dropped.
type tasks struct {
	mu         sync.Mutex
	count      int // in young
	young, old *taskstore.InMemory
	// waiting has a channel for each task that watch was called for; its next change closes it.
	waiting map[a2a.TaskID]chan struct{}
}

func newTasks() *tasks {
	t := &tasks{waiting: map[a2a.TaskID]chan struct{}{}}
	t.young, t.old = t.fresh(), t.fresh()
	return t
}

func (*tasks) fresh() *taskstore.InMemory {
	return taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
		// All requests of a Handler are from one client.
		Authenticator: func(context.Context) (string, error) { return "client", nil },
	})
}

func (t *tasks) with(ctx context.Context, id a2a.TaskID) *taskstore.InMemory {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.young.Get(ctx, id); err == nil {
		return t.young
	}
	return t.old
}

// Create implements taskstore.Store.
func (t *tasks) Create(ctx context.Context, task *a2a.Task) (taskstore.TaskVersion, error) {
	if _, err := t.Get(ctx, task.ID); err == nil {
		return 0, taskstore.ErrTaskAlreadyExists
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= maxTasks {
		t.young, t.old, t.count = t.fresh(), t.young, 0
		for id, c := range t.waiting {
			close(c)
			delete(t.waiting, id)
		}
	}
	t.count++
	return t.young.Create(ctx, task)
}

// Update implements taskstore.Store.
func (t *tasks) Update(ctx context.Context, u *taskstore.UpdateRequest) (taskstore.TaskVersion, error) {
	if m, ok := u.Event.(*a2a.Message); ok { // the last of the history
		u.Task.History[len(u.Task.History)-1] = shortened(m)
	}
	version, err := t.with(ctx, u.Task.ID).Update(ctx, u)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.waiting[u.Task.ID]; c != nil {
		close(c)
		delete(t.waiting, u.Task.ID)
	}
	return version, err
}

// maxMessage limits what a task keeps of a message, in bytes of JSON: the library copies a task
// with all its messages several times for each event.
const maxMessage = 64 << 10

// shortened returns m, or if it is long, its first parts.
func shortened(m *a2a.Message) *a2a.Message {
	if lengthOf(m) <= maxMessage {
		return m
	}
	short := *m
	short.Metadata, short.Extensions, short.ReferenceTasks, short.Parts = nil, nil, nil, nil
	length := 0
	for _, p := range m.Parts {
		if length += lengthOf(p); length > maxMessage {
			break
		}
		short.Parts = append(short.Parts, p)
	}
	short.Parts = append(short.Parts, a2a.NewTextPart("(the rest of this message is not kept)"))
	return &short
}

func lengthOf(v any) int {
	raw, _ := json.Marshal(v) // it was decoded from JSON
	return len(raw)
}

// watch returns a task and a channel that is closed when the task changes or is dropped.
func (t *tasks) watch(ctx context.Context, id a2a.TaskID) (*taskstore.StoredTask, <-chan struct{}, error) {
	if _, err := t.Get(ctx, id); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	c := t.waiting[id]
	if c == nil {
		c = make(chan struct{})
		t.waiting[id] = c
	}
	t.mu.Unlock()
	task, err := t.Get(ctx, id) // a change before this one is in it
	return task, c, err
}

// Get implements taskstore.Store.
func (t *tasks) Get(ctx context.Context, id a2a.TaskID) (*taskstore.StoredTask, error) {
	return t.with(ctx, id).Get(ctx, id)
}

// List implements taskstore.Store. It lists the younger tasks.
func (t *tasks) List(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	t.mu.Lock()
	young := t.young
	t.mu.Unlock()
	list, err := young.List(ctx, req)
	if err == nil && list.Tasks == nil {
		list.Tasks = []*a2a.Task{} // in JSON an array, not null
	}
	return list, err
}
