package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	helm "helm.sh/helm/v3/pkg/release"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

const (
	// beatEvery is how often somebody at work on a release says that they are alive, and deadAfter how long without it
	// they are believed to be: three beats, and some for clocks that differ.
	beatEvery = 5 * time.Second
	deadAfter = 20 * time.Second
	// foreignFor is how long a pending revision of another tool counts as being worked on: twice Helm's own default
	// time-out, since nothing on the cluster tells whether that tool still lives.
	foreignFor = 10 * time.Minute
)

// self names this process: where it runs, in which space of process numbers, which process, and since when, so that a
// number that was used again is another one.
var self = sync.OnceValue(func() string {
	return fmt.Sprintf("%s/%d/%d", place(), os.Getpid(), started(os.Getpid()))
})

// place names the machine since its last boot, and the space of process numbers: only there a process can be looked up.
func place() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	return fmt.Sprintf("%s:%s:%s", host, strings.TrimSpace(string(boot)), space)
}

// started is the time at which a process began, in the kernel's ticks; 0 where it is dead, or the system does not tell.
func started(pid int) uint64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold spaces; the start time is the 20th field after it (proc(5)).
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0 // what is dead and was not waited for does nothing any more
	}
	ticks, _ := strconv.ParseUint(fields[19], 10, 64)
	return ticks
}

// liveness is what is known of somebody who works on a revision.
type liveness int

const (
	dead liveness = iota
	alive
	// quiet: they run elsewhere, and only time will tell.
	quiet
)

// livenessOf tells whether the berth process that marked a revision still works on it.
func livenessOf(one record, now time.Time) liveness {
	annotations := one.secret.GetAnnotations()
	actor := annotations[annotationActor]
	if actor == "" {
		return dead
	}
	if actor == self() {
		// A process works on a release once at a time: what it left is not being worked on.
		return dead
	}
	at, process, _ := strings.Cut(actor, "/")
	if at == place() && !strings.HasSuffix(at, ":") {
		number, since, _ := strings.Cut(process, "/")
		pid, err := strconv.Atoi(number)
		if err == nil && started(pid) != 0 && strconv.FormatUint(started(pid), 10) == since {
			return alive
		}
		return dead
	}
	renewed, err := time.Parse(time.RFC3339, annotations[annotationRenewed])
	if err != nil || now.Sub(renewed) > deadAfter {
		return dead
	}
	return quiet
}

// beat says again and again that this process works on a revision, until the returned function is called.
func (s *storage) beat() (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.renew(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *storage) renew(ctx context.Context) {
	s.mutex.Lock()
	key := s.made
	one, found := s.records[key]
	s.mutex.Unlock()
	// By the Secret and not by the release, which Helm may be changing.
	if !found {
		return
	}
	if status := one.secret.GetLabels()[labelStatus]; !strings.HasPrefix(status, "pending-") && status != helm.StatusUninstalling.String() {
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		annotationRenewed: time.Now().UTC().Format(time.RFC3339),
	}}})
	if err != nil {
		return
	}
	// A beat that is missed is made up for by the next one.
	_, _ = s.cluster.MergePatch(cluster.Unrecorded(ctx), cluster.Secrets, s.ref.Namespace, key, patch, kube.FieldManager)
}

// somebodyElse is the error of a write that came second.
func somebodyElse(c *cluster.Cluster, ref Ref, err error) error {
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s is being worked on by somebody else", ref),
		Detail: fmt.Sprintf("On %s, another process has begun a revision of it since this one looked. It was left to them. "+
			"Wait until they are done, then plan again.", c.Context()),
		Err: err,
	}
}
