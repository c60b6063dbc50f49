// Package cluster is a named cluster of the provider configuration: its connection, its identity, its one client, and
// the snapshot of what lives there that everything else reads from.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Settings are what a provider configuration says about its clusters.
type Settings struct {
	// Owner names the configuration on every ownership mark.
	Owner string
	// Entries are the `clusters` whose connection is known, by key.
	Entries map[string]Entry
	// Deferred are the keys of `clusters` whose connection is not known yet.
	Deferred []string
	// AllDeferred is set when not even the keys of `clusters` are known yet.
	AllDeferred bool
	// UserAgent is sent with every request.
	UserAgent string
	// Trace is called once for each request, with no header and no body in its fields; nil drops it.
	Trace func(ctx context.Context, message string, fields map[string]any)
	// Progress is called with each step of long work; nil drops it.
	Progress func(ctx context.Context, step Step)
}

// Step is one line of progress of long work: which object is being worked on, what is being done, and why it waits.
type Step struct {
	Cluster string `json:"cluster"`
	Object  string `json:"object"`
	Action  string `json:"action"`
	Reason  string `json:"reason,omitempty"`
}

// Fleet is every cluster of one provider configuration. It is safe for concurrent use and connects to a cluster only
// when something asks for it.
type Fleet struct {
	settings Settings
	clusters map[string]*Cluster
}

// ErrDeferred says that a cluster's connection is not known yet: whatever needs it is put off to the apply.
var ErrDeferred = errors.New("the connection of the cluster is not known yet")

// NewFleet prepares the clusters of a provider configuration. It neither reads a file nor dials.
func NewFleet(settings Settings) *Fleet {
	fleet := &Fleet{settings: settings, clusters: map[string]*Cluster{}}
	for name, entry := range settings.Entries {
		fleet.clusters[name] = newCluster(name, entry, settings)
	}
	return fleet
}

// Owner names this configuration on every ownership mark.
func (f *Fleet) Owner() string { return f.settings.Owner }

// AllDeferred tells whether not even the keys of `clusters` are known yet.
func (f *Fleet) AllDeferred() bool { return f.settings.AllDeferred }

// Names are the keys of `clusters`, sorted, those with an unknown connection included.
func (f *Fleet) Names() []string {
	names := slices.Clone(f.settings.Deferred)
	for name := range f.clusters {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Default is the key that a resource without `cluster` means: the only one there is. It returns ErrDeferred while the
// keys are unknown, and a *Problem when there are none or several.
func (f *Fleet) Default() (string, error) {
	if f.settings.AllDeferred {
		return "", ErrDeferred
	}
	names := f.Names()
	switch len(names) {
	case 1:
		return names[0], nil
	case 0:
		return "", &Problem{
			Attribute: "cluster", Summary: "No cluster is configured",
			Detail: "The provider's `clusters` map is empty, so there is no cluster to work on. Add an entry to `clusters` in the provider \"berth\" block.",
		}
	}
	return "", &Problem{
		Attribute: "cluster", Summary: "`cluster` is needed when several clusters are configured",
		Detail: fmt.Sprintf("The provider's `clusters` map has %d entries, and nothing says which one is meant. Set `cluster` to one of: %s.", len(names), quoteAll(names)),
	}
}

// Cluster returns the cluster of a key. The error is ErrDeferred when its connection is not known yet, and a *Problem
// that lists the known keys when there is no such key.
func (f *Fleet) Cluster(name string) (*Cluster, error) {
	if cluster := f.clusters[name]; cluster != nil {
		return cluster, nil
	}
	if f.settings.AllDeferred || slices.Contains(f.settings.Deferred, name) {
		return nil, ErrDeferred
	}
	known := "it has no entry"
	if names := f.Names(); len(names) > 0 {
		known = "its keys are: " + quoteAll(names)
	}
	return nil, &Problem{
		Attribute: "cluster", Summary: fmt.Sprintf("No cluster %q in the provider configuration", name),
		Detail: fmt.Sprintf("There is no %q in the provider's `clusters` map; %s. Use one of them, or add an entry for %q.", name, known, name),
	}
}

// ByUID finds the cluster with a kube-system UID among all entries, which is how a renamed key is found again. It
// returns nil when none that answers has it, and ErrDeferred when none has it but some are not known yet.
func (f *Fleet) ByUID(ctx context.Context, uid string) (*Cluster, error) {
	var (
		group sync.WaitGroup
		mutex sync.Mutex
		found []*Cluster
	)
	for _, cluster := range f.clusters {
		group.Go(func() {
			if have, err := cluster.UID(ctx); err == nil && have == uid {
				mutex.Lock()
				defer mutex.Unlock()
				found = append(found, cluster)
			}
		})
	}
	group.Wait()
	if len(found) > 0 {
		// Two keys may lead to one cluster: the choice must not depend on who answered first.
		slices.SortFunc(found, func(a, b *Cluster) int { return strings.Compare(a.name, b.name) })
		return found[0], nil
	}
	if f.settings.AllDeferred || len(f.settings.Deferred) > 0 {
		return nil, ErrDeferred
	}
	return nil, nil
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}
