package work

import (
	"slices"
	"sync"
)

// An lru keeps the values that were used last. The zero value is ready to use.
type lru[V any] struct {
	mu     sync.Mutex
	keys   []string // in the order of their last use
	values map[string]V
}

const lruSize = 200

func (l *lru[V]) get(key string) (v V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok = l.values[key]; ok {
		i := slices.Index(l.keys, key)
		l.keys = append(slices.Delete(l.keys, i, i+1), key)
	}
	return v, ok
}

func (l *lru[V]) put(key string, v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values == nil {
		l.values = map[string]V{}
	}
	if _, ok := l.values[key]; !ok {
		l.keys = append(l.keys, key)
	}
	l.values[key] = v
	if len(l.keys) > lruSize {
		delete(l.values, l.keys[0])
		l.keys = slices.Delete(l.keys, 0, 1)
	}
}
