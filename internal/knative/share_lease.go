package knative

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

const (
	// leaseName is the Lease, in Serving's namespace, under which what the regions share is computed and written.
	leaseName = "berth-knative-shared"
	// leaseManager writes the Lease.
	leaseManager = "berth-knative-shared"
	// leaseDuration is how long a holder that says nothing is believed to be alive. It renews three times in that time.
	leaseDuration = 30 * time.Second
	// clockSkew is how far the clocks of two runners may be apart. What has expired longer ago than that is stale at first
	// sight; otherwise a Lease is stale when it was watched for its whole duration and not renewed.
	clockSkew = 5 * time.Minute
	// leaseFirstLook and leaseSlowestLook bound how often a wait looks at it.
	leaseFirstLook, leaseSlowestLook = 100 * time.Millisecond, 2 * time.Second
	// leaseGiveBack is how long giving it back may take after everything else is over.
	leaseGiveBack = 10 * time.Second
)

// lease is one holding of the Lease.
type lease struct {
	c         *cluster.Cluster
	namespace string
	// holder names who holds it, for people; identity tells two holdings by the same one apart.
	holder, identity string
	duration         time.Duration
	// mine is the Lease as it was written last; it is what the next write is for.
	mine *unstructured.Unstructured
}

// UnderLease does something while no other run changes what the regions of the cluster share. The Lease is renewed all the
// while and given back afterwards; one whose holder died is taken over. Those that wait are told the provider
// configuration's owner and the host that has it. When ctx ends while another has it, the error is a *cluster.Problem that
// says who. The context of do ends when the Lease is lost.
func UnderLease(ctx context.Context, c *cluster.Cluster, namespace string, do func(context.Context) error) error {
	return newLease(c, namespace, leaseDuration).guard(ctx, do)
}

func newLease(c *cluster.Cluster, namespace string, duration time.Duration) *lease {
	holder := c.Owner()
	if host, err := os.Hostname(); err == nil {
		holder += " on " + host
	}
	return &lease{c: c, namespace: namespace, holder: holder, identity: holder + " (" + string(uuid.NewUUID()) + ")", duration: duration}
}

func (l *lease) guard(ctx context.Context, do func(context.Context) error) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	held, lose := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(held)
	var renewer sync.WaitGroup
	renewer.Go(func() { l.renew(renewing, lose) })
	err := do(held)
	stop()
	renewer.Wait()
	if lost := context.Cause(held); err != nil && held.Err() != nil && ctx.Err() == nil {
		err = lost
	}
	lose(nil)
	l.giveBack(ctx)
	return err
}

// take waits until the Lease is free or stale, and takes it.
func (l *lease) take(ctx context.Context) error {
	var (
		last  *unstructured.Unstructured // the Lease as it was seen last
		since time.Time                  // and when it was first seen so
		start = time.Now()
		pause = leaseFirstLook
	)
	for {
		live, err := l.c.Fetch(ctx, Leases, l.namespace, leaseName)
		if err == nil {
			if live != nil && (last == nil || live.GetResourceVersion() != last.GetResourceVersion()) {
				last, since = live, time.Now()
				if term := termOf(live); term.holder != "" {
					l.c.Progress(ctx, kube.Describe(live), "wait until it is free", "held by "+term.holder)
				}
			}
			if live == nil || stale(termOf(live), since, time.Now()) {
				err = l.seize(ctx, live)
				if err == nil || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
					return err
				}
			}
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		timer := time.NewTimer(wait.Jitter(pause, 0.5))
		select {
		case <-ctx.Done():
			timer.Stop()
			return l.denied(ctx, last, time.Since(start))
		case <-timer.C:
		}
		pause = min(pause*3/2, leaseSlowestLook)
	}
}

// seize creates the Lease, or takes over the one that was seen; the error satisfies IsConflict or IsAlreadyExists where
// another was quicker.
func (l *lease) seize(ctx context.Context, live *unstructured.Unstructured) error {
	now := time.Now()
	spec := map[string]any{
		"holderIdentity": l.identity, "leaseDurationSeconds": int64(max(l.duration, time.Second) / time.Second),
		"acquireTime": microTime(now), "renewTime": microTime(now),
	}
	if live == nil {
		wanted := Leases.New(l.namespace, leaseName)
		wanted.SetLabels(map[string]string{kube.LabelManagedBy: kube.ManagedBy})
		wanted.Object["spec"] = spec
		created, err := l.c.Create(ctx, Leases, wanted, leaseManager)
		l.mine = created
		return err
	}
	l.c.Progress(ctx, kube.Describe(live), "take over", "its holder "+termOf(live).holder+" does not renew it any more")
	taken, err := l.write(ctx, live, spec)
	l.mine = taken
	return err
}

// write changes the Lease as it was seen.
func (l *lease) write(ctx context.Context, seen *unstructured.Unstructured, spec map[string]any) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": string(seen.GetUID()), "resourceVersion": seen.GetResourceVersion()},
		"spec":     spec,
	})
	if err != nil {
		return nil, err
	}
	return l.c.MergePatch(ctx, Leases, l.namespace, leaseName, body, leaseManager)
}

// renew renews the Lease until ctx ends. It is lost when another has it, and when it could not be renewed in time.
func (l *lease) renew(ctx context.Context, lose context.CancelCauseFunc) {
	renewed := time.Now()
	tick := time.NewTicker(l.duration / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		mine, err := l.write(ctx, l.mine, map[string]any{"renewTime": microTime(now)})
		switch {
		case err == nil:
			l.mine, renewed = mine, now
		case ctx.Err() != nil:
			return
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || time.Since(renewed) > l.duration:
			lose(l.lost(err))
			return
		}
	}
}

func (l *lease) lost(err error) error {
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s was lost", kube.Name(Leases.Kind, l.namespace, leaseName)),
		Detail: fmt.Sprintf("While %s changed what the regions of %s share, its Lease could not be renewed, and another run may have it now: %v. "+
			"What was written before stays. Apply again: it goes on from there.", l.holder, l.c.Context(), err),
		Err: err,
	}
}

// giveBack deletes the Lease, unless another has it by now: the next one does not have to wait until it is stale. It is
// done for an apply that was interrupted too.
func (l *lease) giveBack(ctx context.Context) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseGiveBack)
	defer cancel()
	// Where that fails, it goes stale.
	_ = l.c.DeleteAsSeen(late, Leases, l.mine)
}

// denied is the error of a wait for the Lease that was given up; live is the Lease as it was seen last, nil for never.
func (l *lease) denied(ctx context.Context, live *unstructured.Unstructured, waited time.Duration) error {
	if live == nil {
		return ctx.Err()
	}
	term, object := termOf(live), kube.Describe(live)
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s is held by another run", object),
		Detail: fmt.Sprintf("What the regions of %s share is changed by one run at a time, and after %s it is still the turn of %s, which has it since %s and renewed it last at %s. "+
			"Apply again when that run is over. A run that died loses it by itself %s after it last renewed it. Look at: kubectl --context %s get lease %s -n %s -o yaml",
			l.c.Context(), waited.Round(time.Second), term.holder, timeText(term.acquired), timeText(term.renewed), term.duration, l.c.Context(), leaseName, l.namespace),
		Err: ctx.Err(),
	}
}

// term is what a Lease says.
type term struct {
	holder            string
	acquired, renewed time.Time
	duration          time.Duration
}

func termOf(live *unstructured.Unstructured) term {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(live.Object, "spec", field)
		return value
	}
	when := func(field string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, text(field))
		if err != nil {
			return time.Time{}
		}
		return at
	}
	seconds, _, _ := unstructured.NestedInt64(live.Object, "spec", "leaseDurationSeconds")
	return term{holder: text("holderIdentity"), acquired: when("acquireTime"), renewed: when("renewTime"), duration: time.Duration(seconds) * time.Second}
}

// stale tells whether the holder of a Lease that has been the same since a moment is gone.
func stale(t term, since, now time.Time) bool {
	return t.holder == "" || now.Sub(since) > t.duration || now.Sub(t.renewed) > t.duration+clockSkew
}

func microTime(at time.Time) string { return at.UTC().Format(metav1.RFC3339Micro) }

func timeText(at time.Time) string {
	if at.IsZero() {
		return "an unknown time"
	}
	return at.UTC().Format(time.RFC3339)
}
