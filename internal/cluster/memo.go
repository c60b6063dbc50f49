package cluster

import (
	"context"
	"encoding/json"
	"sync"
)

// memo keeps the first good answer to a question. Callers that ask at the same time wait for one answer; an error is
// not kept, because the next caller may have more time.
type memo[T any] struct {
	mutex sync.Mutex
	known bool
	value T
}

func (m *memo[T]) get(_ context.Context, ask func() (T, error)) (T, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.known {
		return m.value, nil
	}
	value, err := ask()
	if err == nil {
		m.value, m.known = value, true
	}
	return value, err
}

// memoMap is a memo for each key; different keys are asked at the same time.
type memoMap[K comparable, T any] struct {
	mutex sync.Mutex
	memos map[K]*memo[T]
}

func (m *memoMap[K, T]) get(ctx context.Context, key K, ask func() (T, error)) (T, error) {
	m.mutex.Lock()
	if m.memos == nil {
		m.memos = map[K]*memo[T]{}
	}
	one := m.memos[key]
	if one == nil {
		one = &memo[T]{}
		m.memos[key] = one
	}
	m.mutex.Unlock()
	return one.get(ctx, ask)
}

func decodeJSON(body []byte, into any) error { return json.Unmarshal(body, into) }
