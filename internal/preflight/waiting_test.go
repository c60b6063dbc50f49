package preflight

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	noRoom  = "0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
	refused = `pods "ws-5e817334-x-0-61ru0u" is forbidden: exceeded quota: team-quota, requested: limits.memory=1Gi, used: limits.memory=2Gi, limited: limits.memory=512Mi`
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(minutes int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute))
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "my-instance", Name: name, UID: types.UID("uid-" + name)}
}

func pendingPod(name, reason string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(name)}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: noRoom, LastTransitionTime: at(1)}}
	return pod
}

// refusal is an event about a pod that a quota refused, first at minute 2 and last at minute 5.
func refusal(apiVersion, kind, name, message string) *corev1.Event {
	event := &corev1.Event{ObjectMeta: meta(name + ".1"), Reason: "FailedCreate", Message: message, FirstTimestamp: at(2), LastTimestamp: at(5)}
	event.InvolvedObject = corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "my-instance", Name: name, UID: types.UID("uid-" + name)}
	return event
}

func failedSet(name, message string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: meta(name)}
	set.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message, LastTransitionTime: at(3)}}
	return set
}

func waits(t *testing.T, c *fake) []Waiting {
	t.Helper()
	waiting, err := Waits(t.Context(), c, "my-instance")
	if err != nil {
		t.Fatal(err)
	}
	for i := range waiting {
		waiting[i].Since = waiting[i].Since.UTC()
	}
	return waiting
}

func TestWaits_J43_J45(t *testing.T) {
	running := &corev1.Pod{ObjectMeta: meta("running")}
	running.Status.Phase = corev1.PodRunning
	deleted := pendingPod("deleted", corev1.PodReasonUnschedulable)
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	elsewhere := pendingPod("elsewhere", corev1.PodReasonUnschedulable)
	elsewhere.Namespace = "other"

	c := newFake(t,
		pendingPod("ws-1", corev1.PodReasonUnschedulable), pendingPod("gated", corev1.PodReasonSchedulingGated), running, deleted, elsewhere,
		failedSet("web-5d", refused), failedSet("broken-1", `pods "broken-" is forbidden: no such ServiceAccount`),
		&batchv1.Job{ObjectMeta: meta("index")}, refusal("batch/v1", "Job", "index", "Error creating: "+refused),
		refusal("runs.example.com/v1", "Workspace", "hold", refused),
	)
	equal(t, waits(t, c), []Waiting{
		{"Job index", OnQuota, refused, noon.Add(2 * time.Minute)},
		{"Pod ws-1", OnNode, noRoom, noon.Add(1 * time.Minute)},
		{"ReplicaSet web-5d", OnQuota, refused, noon.Add(3 * time.Minute)},
		{"Workspace hold", OnQuota, refused, noon.Add(2 * time.Minute)},
	})
	equal(t, c.requests, map[string]int{"list pods": 1, "list replicasets": 1, "list events": 1, "get jobs": 1})
}

// An event outlives what it is about: it must not make something wait that no longer does.
func TestWaitsForgetWhatIsOver_J43(t *testing.T) {
	event := func() *corev1.Event { return refusal("batch/v1", "Job", "index", "Error creating: "+refused) }
	job := func() *batchv1.Job { return &batchv1.Job{ObjectMeta: meta("index")} }
	finished := job()
	finished.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	again := job()
	again.UID = "uid-another"
	podOf := func(minute int) *corev1.Pod {
		yes := true
		pod := &corev1.Pod{ObjectMeta: meta("index-x")}
		pod.CreationTimestamp = at(minute)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "index", UID: "uid-index", Controller: &yes}}
		return pod
	}
	named := podOf(6)
	named.OwnerReferences, named.Name = nil, "ws-5e817334-x-0-61ru0u"
	ofSet := refusal("apps/v1", "ReplicaSet", "web-5d", "Error creating: "+refused)

	for _, test := range []struct {
		name    string
		cluster *fake
		waiting int
	}{
		{"still waits", newFake(t, event(), job()), 1},
		{"still waits with an older pod", newFake(t, event(), job(), podOf(4)), 1},
		{"has a newer pod", newFake(t, event(), job(), podOf(6)), 0},
		{"the pod of that name came later", newFake(t, event(), job(), named), 0},
		{"is gone", newFake(t, event()), 0},
		{"is finished", newFake(t, event(), finished), 0},
		{"was made anew", newFake(t, event(), again), 0},
		{"says so twice", newFake(t, event(), event(), job()), 1},
		{"a ReplicaSet speaks by its condition only", newFake(t, ofSet, &appsv1.ReplicaSet{ObjectMeta: meta("web-5d")}), 0},
		{"is about something else", newFake(t, refusal("batch/v1", "Job", "index", "Error creating: no such ServiceAccount"), job()), 0},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, len(waits(t, test.cluster)), test.waiting) })
	}
}

func TestWaitsShowsWhatItCouldRead_J43(t *testing.T) {
	c := newFake(t, pendingPod("ws-1", corev1.PodReasonUnschedulable))
	c.refuse["list events"] = forbidden("events")
	waiting, err := Waits(t.Context(), c, "my-instance")
	if err == nil || !strings.HasPrefix(err.Error(), `reading the events of namespace "my-instance": `) {
		t.Errorf("got %v", err)
	}
	equal(t, len(waiting), 1)
}

func TestEventTimes(t *testing.T) {
	modern := &corev1.Event{EventTime: metav1.NewMicroTime(noon), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon.Add(time.Hour))}}
	equal(t, firstSeen(modern), noon)
	equal(t, lastSeen(modern), noon.Add(time.Hour))
	bare := &corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	equal(t, firstSeen(bare), noon)
	equal(t, lastSeen(bare), noon)
}
