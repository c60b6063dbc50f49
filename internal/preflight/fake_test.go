package preflight

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

var _ Cluster = (*cluster.Cluster)(nil)

// fake is a cluster in memory, called "shared". It holds API objects and answers as an API server does.
type fake struct {
	version *version.Info
	objects map[cluster.Kind][]*unstructured.Unstructured
	refuse  map[string]error // by verb and resource, such as "list nodes"
	lacks   []cluster.Permission
	planned map[string]bool // by kind, namespace and name
	admit   func(*corev1.Pod) error

	mutex    sync.Mutex
	requests map[string]int // by verb and resource
	probes   []*corev1.Pod
}

func newFake(t *testing.T, objects ...runtime.Object) *fake {
	t.Helper()
	f := &fake{
		version: &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.1"}, objects: map[cluster.Kind][]*unstructured.Unstructured{},
		refuse: map[string]error{}, planned: map[string]bool{}, requests: map[string]int{},
	}
	for _, object := range objects {
		f.add(t, object)
	}
	return f
}

var fakeKinds = map[string]cluster.Kind{
	"Node": cluster.Nodes, "Namespace": cluster.Namespaces, "Secret": cluster.Secrets, "Pod": cluster.Pods, "Event": cluster.Events,
	"ResourceQuota": cluster.ResourceQuotas, "ReplicaSet": cluster.ReplicaSets, "Job": cluster.Jobs, "DaemonSet": cluster.DaemonSets,
	"StorageClass": cluster.StorageClasses, "PriorityClass": cluster.PriorityClasses,
}

func (f *fake) add(t *testing.T, object runtime.Object) {
	t.Helper()
	name := reflect.TypeOf(object).Elem().Name()
	kind, known := fakeKinds[name]
	if !known {
		t.Fatalf("the fake knows no %s", name)
	}
	f.objects[kind] = append(f.objects[kind], toUnstructured(t, kind, object))
}

func toUnstructured(t *testing.T, kind cluster.Kind, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	result := &unstructured.Unstructured{Object: content}
	result.SetGroupVersionKind(kind.GVK())
	return result
}

func (f *fake) asked(verb string, kind cluster.Kind) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.requests[verb+" "+kind.Resource]++
	return f.refuse[verb+" "+kind.Resource]
}

func (f *fake) Context() string { return "shared" }

func (f *fake) Version(context.Context) (*version.Info, error) {
	return f.version, f.refuse["get version"]
}

func (f *fake) List(_ context.Context, kind cluster.Kind) ([]*unstructured.Unstructured, error) {
	if err := f.asked("list", kind); err != nil {
		return nil, err
	}
	return f.objects[kind], nil
}

func (f *fake) ListIn(ctx context.Context, kind cluster.Kind, namespace string) (objects []*unstructured.Unstructured, err error) {
	all, err := f.List(ctx, kind)
	for _, object := range all {
		if object.GetNamespace() == namespace {
			objects = append(objects, object)
		}
	}
	return objects, err
}

func (f *fake) Find(_ context.Context, kind cluster.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	if err := f.asked("get", kind); err != nil {
		return nil, err
	}
	for _, object := range f.objects[kind] {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object, nil
		}
	}
	return nil, nil
}

func (f *fake) Missing(_ context.Context, permissions []cluster.Permission) (missing []cluster.Permission, err error) {
	for _, permission := range permissions {
		for _, lack := range f.lacks {
			if permission == lack {
				missing = append(missing, permission)
			}
		}
	}
	return missing, f.refuse["create selfsubjectaccessreviews"]
}

func (f *fake) DryRunCreate(_ context.Context, object *unstructured.Unstructured, kind cluster.Kind) (*unstructured.Unstructured, error) {
	if err := f.asked("create", kind); err != nil {
		return nil, err
	}
	pods, err := decode[corev1.Pod]([]*unstructured.Unstructured{object})
	if err != nil {
		return nil, err
	}
	f.probes = append(f.probes, pods[0].DeepCopy())
	if f.admit != nil {
		if err := f.admit(&pods[0]); err != nil {
			return nil, err
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pods[0])
	return &unstructured.Unstructured{Object: content}, err
}

func (f *fake) Planned(kind cluster.Kind, namespace, name string) bool {
	return f.planned[kind.Kind+" "+namespace+"/"+name]
}

// forbidden is the API server's refusal of a request for want of a permission.
func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errorText(`User "ci" cannot list resource at the cluster scope`))
}

type errorText string

func (e errorText) Error() string { return string(e) }

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%v\nwant:\n%v", got, want)
	}
}

// expect compares a check with what it must say; remedy is a part of the remedy, and "" asserts that there is none.
func expect(t *testing.T, check Check, name string, status Status, message, remedy string) {
	t.Helper()
	if check.Name != name || check.Status != status {
		t.Errorf("got check %q with status %s, want %q with %s", check.Name, check.Status, name, status)
	}
	if check.Message != message {
		t.Errorf("got message:\n%s\nwant:\n%s", check.Message, message)
	}
	if remedy == "" && check.Remedy != "" || !strings.Contains(check.Remedy, remedy) {
		t.Errorf("got remedy:\n%s\nwant one with:\n%s", check.Remedy, remedy)
	}
}

type nodeOption func(*corev1.Node)

// node is a Linux node of the given architecture with 16Gi of memory, 8 cpus and containerd 2.1.
func node(name, architecture string, options ...nodeOption) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{Architecture: architecture, OperatingSystem: "linux", ContainerRuntimeVersion: "containerd://2.1.4"}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourceCPU: resource.MustParse("8")}
	for _, option := range options {
		option(n)
	}
	return n
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func labeled(key, value string) nodeOption {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

func tainted(key, value string, effect corev1.TaintEffect) nodeOption {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func runs(containerRuntime string) nodeOption {
	return func(n *corev1.Node) { n.Status.NodeInfo.ContainerRuntimeVersion = containerRuntime }
}

// holds sets the allocatable; an empty text leaves that one unreported.
func holds(memory, cpu string) nodeOption {
	return func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{}
		if memory != "" {
			n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		if cpu != "" {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
	}
}

func nodes(each ...*corev1.Node) (list []corev1.Node) {
	for _, n := range each {
		list = append(list, *n)
	}
	return list
}
