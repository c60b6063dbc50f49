package provider

import "sync"

// turns are locks by name. The zero value is ready.
type turns struct {
	mutex sync.Mutex
	locks map[string]*sync.Mutex
}

// take waits for the turn of a name and returns what ends it.
func (t *turns) take(name string) (end func()) {
	t.mutex.Lock()
	if t.locks == nil {
		t.locks = map[string]*sync.Mutex{}
	}
	lock := t.locks[name]
	if lock == nil {
		lock = &sync.Mutex{}
		t.locks[name] = lock
	}
	t.mutex.Unlock()
	lock.Lock()
	return lock.Unlock
}
