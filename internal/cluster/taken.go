package cluster

import (
	"context"
	"sync"
)

// taken is which call of this process has made an object, or its part in a shared one, a resource's own. The runner
// creates, updates and destroys several resources in one process, and two of them may be about one object: a replacement
// that is created before the old one is destroyed, or a resource whose address changed. Marks on the cluster cannot tell
// them apart, because both are the same resource to it.
type taken struct {
	mutex sync.Mutex
	by    map[takenKey]*Record
}

type takenKey struct {
	kind                   Kind
	namespace, name, owner string
}

// Take registers that the call of this context has made an object an owner's. Without WithRecord it does nothing.
func (c *Cluster) Take(ctx context.Context, kind Kind, namespace, name, owner string) {
	call, ok := ctx.Value(recordKey{}).(*Record)
	if !ok {
		return
	}
	c.taken.mutex.Lock()
	defer c.taken.mutex.Unlock()
	if c.taken.by == nil {
		c.taken.by = map[takenKey]*Record{}
	}
	c.taken.by[takenKey{kind, namespace, name, owner}] = call
}

// TakenByOther tells whether another call of this process has made an object an owner's.
func (c *Cluster) TakenByOther(ctx context.Context, kind Kind, namespace, name, owner string) bool {
	call, _ := ctx.Value(recordKey{}).(*Record)
	c.taken.mutex.Lock()
	defer c.taken.mutex.Unlock()
	other := c.taken.by[takenKey{kind, namespace, name, owner}]
	return other != nil && other != call
}
