package kube

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// rendered are objects as a chart renders them.
const rendered = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: fields, labels: {app: app}}
spec:
  replicas: 1
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: app, image: 'example.com/app:1', ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: fields}
data: {mode: fast}
---
apiVersion: v1
kind: Secret
metadata: {name: app, namespace: fields}
data: {password: b2xk}
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: fields}
spec: {selector: {app: app}, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: app, namespace: fields}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: app}
subjects: [{kind: User, name: app}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: fields}
webhooks:
- name: a.example.com
  clientConfig: {url: 'https://127.0.0.1:1/', caBundle: ''}
  rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [none]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// typed are the Go types of the rendered objects, which say how a strategic merge patch treats their lists.
var typed = map[string]any{
	"Deployment": appsv1.Deployment{}, "ConfigMap": corev1.ConfigMap{}, "Secret": corev1.Secret{}, "Service": corev1.Service{}, "RoleBinding": rbacv1.RoleBinding{},
}

// hands is a test that changes the rendered objects by hand and as controllers do.
type hands struct {
	*fixture
	wanted map[string]*unstructured.Unstructured
}

func (h *hands) live(kind string) *unstructured.Unstructured {
	h.t.Helper()
	args := []string{"get", strings.ToLower(kind), h.wanted[kind].GetName(), "-o", "json", "--show-managed-fields"}
	if h.wanted[kind].GetNamespace() != "" {
		args = append(args, "-n", h.namespace)
	}
	live := &unstructured.Unstructured{}
	if err := live.UnmarshalJSON([]byte(h.plane.Kubectl(h.t, args...))); err != nil {
		h.t.Fatal(err)
	}
	return live
}

// kubectl runs kubectl in the namespace of the test.
func (h *hands) kubectl(args ...string) {
	h.t.Helper()
	h.plane.Kubectl(h.t, append([]string{"-n", h.namespace}, args...)...)
}

// drift is what differs from what we want, in what has not been taken rightly; the server settles defaults, as for an
// object that is put to it as a dry run.
func (h *hands) drift(kind string, live *unstructured.Unstructured) string {
	h.t.Helper()
	yielded := Yield(h.wanted[kind], live, FieldManager, nil)
	return texts(compareAs(yielded, h.patched(kind, yielded, yielded, live, true), live))
}

// patched is live after a three-way merge as Helm's: it differs from live in what was to be repaired.
func (h *hands) patched(kind string, original, modified, live *unstructured.Unstructured, dryRun bool) *unstructured.Unstructured {
	h.t.Helper()
	bodies := make([][]byte, 3)
	for i, one := range []*unstructured.Unstructured{original, modified, live} {
		body, err := json.Marshal(one.Object)
		if err != nil {
			h.t.Fatal(err)
		}
		bodies[i] = body
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(typed[kind])
	if err != nil {
		h.t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(bodies[0], bodies[1], bodies[2], meta, true)
	if err != nil {
		h.t.Fatal(err)
	}
	args := []string{"-n", h.namespace, "patch", strings.ToLower(kind), "app", "--type=strategic", "-o", "json", "--show-managed-fields", "--field-manager=" + FieldManager, "-p", string(patch)}
	if dryRun {
		args = append(args, "--dry-run=server")
	}
	outcome := &unstructured.Unstructured{}
	if err := outcome.UnmarshalJSON([]byte(h.plane.Kubectl(h.t, args...))); err != nil {
		h.t.Fatal(err)
	}
	return outcome
}

// Whose a field is, told from what a real API server writes down: what persons changed is drift, what they added is
// extra, what controllers took is neither, and a three-way merge takes away just what is extra (promises 6 and 9 of the
// design).
func TestFieldsOfRealObjects(t *testing.T) {
	h := &hands{fixture: newFixture(t, "fields"), wanted: map[string]*unstructured.Unstructured{}}
	kinds := []string{"Deployment", "ConfigMap", "Secret", "Service", "RoleBinding", "ValidatingWebhookConfiguration"}
	for text := range strings.SplitSeq(rendered, "---\n") {
		one := object(t, text)
		h.wanted[one.GetKind()] = one
	}
	h.plane.KubectlInput(t, rendered, "create", "-f", "-", "--field-manager="+FieldManager)
	t.Cleanup(func() { h.plane.Kubectl(t, "delete", "validatingwebhookconfiguration", "fields") })
	created := map[string]*unstructured.Unstructured{}
	for _, kind := range kinds {
		live := h.live(kind)
		created[kind] = live
		sameObject(t, kind+" yields nothing", Yield(h.wanted[kind], live, FieldManager, nil), h.wanted[kind])
		want(t, kind+" has nothing extra", extraTexts(Extra(h.wanted[kind], live, FieldManager, nil)), "")
	}

	// One that a person created, and that is ours since, came with its defaults.
	h.plane.KubectlInput(t, strings.ReplaceAll(strings.Split(rendered, "---\n")[0], "{name: app, namespace", "{name: adopted, namespace"), "create", "-f", "-")
	adopted := &unstructured.Unstructured{}
	if err := adopted.UnmarshalJSON([]byte(h.plane.Kubectl(t, "-n", "fields", "get", "deployment", "adopted", "-o", "json", "--show-managed-fields"))); err != nil {
		t.Fatal(err)
	}
	want(t, "a Deployment that was adopted has nothing extra", extraTexts(Extra(h.wanted["Deployment"], adopted, FieldManager, nil)), "")
	h.kubectl("delete", "deployment", "adopted")

	// By hand.
	h.kubectl("scale", "deployment", "app", "--replicas=3")
	h.kubectl("set", "image", "deployment/app", "app=example.com/app:2")
	h.kubectl("set", "env", "deployment/app", "ADDED=by hand")
	h.kubectl("rollout", "restart", "deployment/app")
	h.kubectl("label", "deployment", "app", "team=theirs")
	h.kubectl("annotate", "deployment", "app", "note=theirs")
	h.edit("deployment", `s#containers:#containers:\n      - image: example.com/debug:1\n        name: debug#`)
	h.kubectl("patch", "configmap", "app", "--type=merge", "-p", `{"data":{"mode":"slow","added":"x"}}`)
	h.kubectl("patch", "secret", "app", "-p", `{"data":{"password":"bmV3","added":"eA=="}}`)
	h.kubectl("patch", "service", "app", "--type=strategic", "-p", `{"spec":{"type":"NodePort","ports":[{"port":443,"name":"tls"},{"port":80,"name":"http"}]}}`)
	h.kubectl("patch", "rolebinding", "app", "--type=json", "-p", `[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"eve","apiGroup":"rbac.authorization.k8s.io"}}]`)
	h.kubectl("patch", "validatingwebhookconfiguration", "fields", "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`)
	// Another manager applies its own label, and one that it agrees with us about.
	h.plane.KubectlInput(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: fields, labels: {cost: center}}}", "apply", "--server-side", "--field-manager=deploy-bot", "-f", "-")
	h.plane.KubectlInput(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: app, namespace: fields, labels: {app: app}}}", "apply", "--server-side", "--field-manager=deploy-bot", "-f", "-")

	for kind, expected := range map[string]struct{ drift, extra string }{
		"Deployment": {
			drift: "spec.replicas: 3 → 1\nspec.template.spec.containers[name=app].image: example.com/app:2 → example.com/app:1",
			extra: "metadata.annotations.note by kubectl-annotate: theirs\nmetadata.labels.team by kubectl-label: theirs\n" +
				"spec.template.spec.containers[name=app].env[name=ADDED] by kubectl-set: `{\"name\":\"ADDED\",\"value\":\"by hand\"}`\n" +
				"spec.template.spec.containers[name=debug] by kubectl-edit: `{\"image\":\"example.com/debug:1\",\"imagePullPolicy\":\"IfNotPresent\",\"name\":\"debug\",\"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}`",
		},
		"ConfigMap":   {drift: "data.mode: slow → fast", extra: "data.added by kubectl-patch: x\nmetadata.labels.cost by deploy-bot: center"},
		"Secret":      {drift: "data.password: (sensitive value) → (sensitive value)", extra: "data.added by kubectl-patch: (sensitive value)"},
		"RoleBinding": {extra: "subjects[name=eve] by kubectl-patch: `{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"User\",\"name\":\"eve\"}`"},
	} {
		live := h.live(kind)
		want(t, kind+"'s drift", h.drift(kind, live), expected.drift)
		want(t, kind+"'s extra fields", extraTexts(Extra(h.wanted[kind], live, FieldManager, nil)), expected.extra)
	}
	service := h.live("Service")
	want(t, "the Service's extra fields", port.ReplaceAllString(extraTexts(Extra(h.wanted["Service"], service, FieldManager, nil)), "N"),
		"spec.ports[port=443,protocol=TCP] by kubectl-patch: `{\"name\":\"tls\",\"nodePort\":N,\"port\":443,\"protocol\":\"TCP\",\"targetPort\":443}`\n"+
			"spec.ports[port=80,protocol=TCP].name by kubectl-patch: http\nspec.type by kubectl-patch: NodePort")
	want(t, "what became of the Service", port.ReplaceAllString(texts(Diff(created["Service"], service)), "N"),
		"spec.externalTrafficPolicy: (none) → Cluster\n"+
			"spec.ports[port=443,protocol=TCP]: (none) → `{\"name\":\"tls\",\"nodePort\":N,\"port\":443,\"protocol\":\"TCP\",\"targetPort\":443}`\n"+
			"spec.ports[port=80,protocol=TCP].name: (none) → http\nspec.ports[port=80,protocol=TCP].nodePort: (none) → N\nspec.type: ClusterIP → NodePort")
	hooks := h.live("ValidatingWebhookConfiguration")
	want(t, "the webhook's extra fields", extraTexts(Extra(h.wanted["ValidatingWebhookConfiguration"], hooks, FieldManager, nil)), "webhooks[name=a.example.com].failurePolicy by kubectl-patch: Ignore")
	want(t, "what became of the ConfigMap", texts(Diff(created["ConfigMap"], h.live("ConfigMap"))), "data.added: (none) → x\ndata.mode: fast → slow\nmetadata.labels.cost: (none) → center")

	// By controllers.
	clients := h.plane.Client()
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "fields"}, Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	if _, err := clients.AppsV1().Deployments("fields").UpdateScale(t.Context(), "app", scale, metav1.UpdateOptions{FieldManager: "kube-controller-manager"}); err != nil {
		t.Fatal(err)
	}
	bundle := strings.Repeat("QUFB", 200)
	hookResource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	body := fmt.Appendf(nil, `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, bundle)
	if _, err := h.plane.Dynamic().Resource(hookResource).Patch(t.Context(), "fields", types.JSONPatchType, body, metav1.PatchOptions{FieldManager: "certificate-job"}); err != nil {
		t.Fatal(err)
	}
	body = []byte(`{"metadata":{"annotations":{"theirs":"x"}},"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"example.com/sidecar:1","env":[{"name":"A","value":"1"}]},{"name":"app","env":[{"name":"INJECTED","value":"1"}]}]}}}}`)
	if _, err := clients.AppsV1().Deployments("fields").Patch(t.Context(), "app", types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: "sidecar-injector"}); err != nil {
		t.Fatal(err)
	}
	live := h.live("Deployment")
	want(t, "replicas", nested(t, Yield(h.wanted["Deployment"], live, FieldManager, nil), "spec", "replicas"), 4)
	want(t, "drift beside an autoscaler", h.drift("Deployment", live), "spec.template.spec.containers[name=app].image: example.com/app:2 → example.com/app:1")
	before := Extra(h.wanted["Deployment"], live, FieldManager, nil)
	want(t, "extra fields beside controllers", len(before), 4)
	yielded := Yield(h.wanted["ValidatingWebhookConfiguration"], h.live("ValidatingWebhookConfiguration"), FieldManager, nil)
	want(t, "the CA bundle", yielded.Object["webhooks"].([]any)[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"], bundle)
	h.kubectl("scale", "deployment", "app", "--replicas=5")
	want(t, "scaled by hand again", strings.Split(h.drift("Deployment", h.live("Deployment")), "\n")[0], "spec.replicas: 5 → 1")

	// Repaired, and what is extra taken away, in one patch each.
	for kind := range typed {
		live := h.live(kind)
		wanted := h.wanted[kind]
		extra := Extra(wanted, live, FieldManager, nil)
		h.patched(kind, WithExtra(wanted, live, extra), Yield(wanted, live, FieldManager, nil), live, false)
		live = h.live(kind)
		want(t, kind+" has nothing extra after that", extraTexts(Extra(wanted, live, FieldManager, nil)), "")
		want(t, kind+" has no drift after that", h.drift(kind, live), "")
	}
	live = h.live("Deployment")
	var names []string
	for _, container := range live.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any) {
		names = append(names, container.(map[string]any)["name"].(string))
		if container.(map[string]any)["name"] == "app" {
			want(t, "the environment that the injector left", container.(map[string]any)["env"], "[map[name:INJECTED value:1]]")
		}
	}
	slices.Sort(names)
	want(t, "containers", names, []string{"app", "sidecar"})
	want(t, "what was not taken away", row(live.GetAnnotations()["theirs"], live.GetAnnotations()["note"], nested(t, live, "spec", "template", "metadata", "annotations") != nil), row("x", "", true))
	want(t, "in the end", texts(Diff(created["ConfigMap"], h.live("ConfigMap")))+texts(Diff(created["Secret"], h.live("Secret")))+texts(Diff(created["RoleBinding"], h.live("RoleBinding"))), "")
}

// port is a node port, which the server chooses.
var port = regexp.MustCompile(`3[0-2]\d{3}`)

// edit is `kubectl edit` with a sed script for an editor.
func (h *hands) edit(kind, script string) {
	h.t.Helper()
	h.t.Setenv("KUBE_EDITOR", "sed -i -e '"+script+"'")
	h.kubectl("edit", kind, "app")
}

func nested(t *testing.T, in *unstructured.Unstructured, path ...string) any {
	t.Helper()
	found, _, err := unstructured.NestedFieldNoCopy(in.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
