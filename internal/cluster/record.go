package cluster

import (
	"context"
	"slices"
	"sync"
)

// Record is what was written to clusters under one context, in order: an error at the end of an apply must say what
// had been applied before it.
type Record struct {
	mutex sync.Mutex
	lines []string
}

type recordKey struct{}

// WithRecord returns a context under which every write is recorded.
func WithRecord(ctx context.Context) (context.Context, *Record) {
	one := &Record{}
	return context.WithValue(ctx, recordKey{}, one), one
}

// Lines are the writes so far, each once, such as "created ConfigMap/team/settings".
func (r *Record) Lines() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.lines)
}

func record(ctx context.Context, what string, kind Kind, namespace, name string) {
	one, ok := ctx.Value(recordKey{}).(*Record)
	if !ok {
		return
	}
	line := what + " " + kind.Kind + "/"
	if namespace != "" {
		line += namespace + "/"
	}
	line += name
	one.mutex.Lock()
	defer one.mutex.Unlock()
	if !slices.Contains(one.lines, line) {
		one.lines = append(one.lines, line)
	}
}

// Unrecorded returns a context whose writes are not recorded: what merely says that work goes on is nothing that was
// applied.
func Unrecorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, recordKey{}, nil)
}
