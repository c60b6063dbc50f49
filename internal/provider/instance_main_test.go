package provider_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// thisInstance is the address of the instance that tests with a single one have.
const thisInstance = "berth_instance.this"

// The default classes, the component objects and the settings, by name.
const (
	controlClass = "berth-control"
	sandboxClass = "berth-sandbox"
	settings     = "berth-instance"
	orchestrator = "berth-orchestrator"
	repoCache    = "berth-repo-cache"
	operator     = "berth-operator"
)

// whole is a cluster on which pods run, as kwok simulates them: node "amd", and node "pool" that is labelled and
// tainted pool=agents. What becomes of a pod is up to podStages.
var whole = lazyCluster{spec: fleettest.ClusterSpec{
	Name: "whole", Stages: podStages,
	Nodes: []fleettest.NodeSpec{
		{Name: "amd"},
		{
			Name: "pool", Labels: map[string]string{"pool": "agents"},
			Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
		},
	},
}}

func wholeCluster(t testing.TB) *fleettest.Cluster { t.Helper(); return whole.get(t) }

// podStages are kwok Stages by which the image of a pod decides what becomes of it: one that cannot be pulled, one whose
// program ends well, and one whose program fails. The first goes on matching, or kwok's own stage would make it ready.
const podStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: { name: image-broken }
spec:
  resourceRef: { apiGroup: v1, kind: Pod }
  selector:
    matchExpressions:
    - { key: '.metadata.deletionTimestamp', operator: DoesNotExist }
    - { key: '.spec.containers[].image', operator: In, values: ["broken.example.com/app:1"] }
  weight: 100
  next:
    statusTemplate: |
      phase: Pending
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: false
        restartCount: 0
        state: { waiting: { reason: ErrImagePull, message: "failed to pull: 401 Unauthorized" } }
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: { name: program-ends }
spec:
  resourceRef: { apiGroup: v1, kind: Pod }
  selector:
    matchExpressions:
    - { key: '.metadata.deletionTimestamp', operator: DoesNotExist }
    - { key: '.status.phase', operator: NotIn, values: ["Succeeded", "Failed"] }
    - { key: '.spec.containers[].image', operator: In, values: ["curl.example.com/well:1"] }
  weight: 100
  next:
    statusTemplate: |
      phase: Succeeded
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: { name: program-fails }
spec:
  resourceRef: { apiGroup: v1, kind: Pod }
  selector:
    matchExpressions:
    - { key: '.metadata.deletionTimestamp', operator: DoesNotExist }
    - { key: '.status.phase', operator: NotIn, values: ["Succeeded", "Failed"] }
    - { key: '.spec.containers[].image', operator: In, values: ["curl.example.com/fails:1"] }
  weight: 100
  next:
    statusTemplate: |
      phase: Failed
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: false
        restartCount: 0
        state: { terminated: { exitCode: 7, reason: Error } }
      {{ end }}
`

// pool is where the sandboxes of most tests run.
const pool = `sandbox = {
  node_selector = { pool = "agents" }
  tolerations   = [{ key = "pool", value = "agents", effect = "NoSchedule" }]
}`

// instance is a berth_instance.
func instance(label, name string, body ...string) string {
	return fmt.Sprintf("resource \"berth_instance\" %q {\nname = %q\n%s\n}\n", label, name, strings.Join(body, "\n"))
}

// ownClasses gives an instance classes of its own, so that a test on a cluster that others use keeps apart from them.
func (b *bench) ownClasses() string {
	b.t.Helper()
	name := unique("class")
	b.foreign(name+"-control", 2000, nil)
	b.foreign(name+"-sandbox", 500, func(class *schedulingv1.PriorityClass) { class.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
	return fmt.Sprintf("priority_classes = { control = %q, sandbox = %q }", name+"-control", name+"-sandbox")
}

// namespace reads a Namespace past the proxy; nil when there is none.
func (b *bench) namespace(name string) *corev1.Namespace {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().Namespaces().Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

func (b *bench) mustNamespace(name string) *corev1.Namespace {
	b.t.Helper()
	found := b.namespace(name)
	if found == nil {
		b.t.Fatalf("there is no namespace %q on cluster %q", name, b.cluster.Name())
	}
	return found
}

// settings reads what in-cluster readers read.
func (b *bench) settings(namespace string) map[string]string {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().ConfigMaps(namespace).Get(b.t.Context(), settings, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found.Data
}

// ownedInstance are the marks on what belongs to an instance that an owner's configuration created.
func ownedInstance(owner, name string) string {
	return fmt.Sprintf("managed-by=berth owner=%s/instance.%s created=true", owner, name)
}

// userLabel is the label by which an instance says that it uses a shared object.
func userLabel(owner, name string) string {
	sum := sha256.Sum256([]byte(owner + "/instance." + name))
	return "users.berth.dev/" + hex.EncodeToString(sum[:8])
}

// ours lists every object of any kind that carries a mark of this bench's owner, or that one of the named instances
// uses.
func (b *bench) ours(names ...string) []string {
	b.t.Helper()
	return everything(b.t, b.cluster, func(object metav1.Object) bool {
		return strings.HasPrefix(object.GetAnnotations()["berth.dev/owner"], b.owner+"/") ||
			slices.ContainsFunc(names, func(name string) bool { return object.GetLabels()[userLabel(b.owner, name)] != "" })
	})
}

// anyMark tells whether an object carries any mark of berth's.
func anyMark(object metav1.Object) bool {
	for _, values := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for key, value := range values {
			if strings.Contains(key, "berth.dev/") || key == "app.kubernetes.io/managed-by" && value == "berth" {
				return true
			}
		}
	}
	return false
}

// everything lists the objects of all kinds that match, as kind/namespace/name, sorted.
func everything(t testing.TB, c *fleettest.Cluster, match func(metav1.Object) bool) []string {
	t.Helper()
	all, err := c.Client().Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, group := range all {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			objects, err := c.Dynamic().Resource(version.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range objects.Items {
				if object := &objects.Items[i]; match(object) {
					found = append(found, strings.ReplaceAll(fmt.Sprintf("%s/%s/%s", kind.Kind, object.GetNamespace(), object.GetName()), "//", "/"))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// conditionsOf are the conditions of an instance in the state: type to "status reason".
func (b *bench) conditionsOf(address string) map[string]string {
	b.t.Helper()
	short := map[string]string{}
	for kind, value := range b.Resource(address)["conditions"].(map[string]any) {
		one := value.(map[string]any)
		short[kind] = fmt.Sprintf("%v %v", one["status"], one["reason"])
	}
	return short
}

// writes are the writes that went through the proxy, in order, as "verb resource namespace/name".
func (b *bench) writes() []string {
	b.t.Helper()
	var writes []string
	for _, request := range b.proxy.Requests() {
		if request.IsWrite() {
			writes = append(writes, strings.TrimSpace(fmt.Sprintf("%s %s/%s", request.Key(), request.Namespace, request.Name)))
		}
	}
	return writes
}

// unwritten fails the test where anything was written; dry runs write nothing.
func (b *bench) unwritten() {
	b.t.Helper()
	same(b.t, "writes", b.writes(), []string(nil))
}

// quoted is a text for a pattern.
func quoted(text string) string { return regexp.QuoteMeta(text) }

// Short names for what tests say often.
type (
	ctx       = context.Context
	classSpec = schedulingv1.PriorityClass
)

var never = ptr.To(corev1.PreemptNever)
