package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func enforces(level string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, "pod-security.kubernetes.io/enforce", level)
	}
}

func ownedBy(owner string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, "berth.dev/owner", owner) }
}

func managedBy(manager string) func(*corev1.Namespace) {
	return func(n *corev1.Namespace) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, "app.kubernetes.io/managed-by", manager)
	}
}

func TestNamespace_J48(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		wanted  Namespace
		status  Status
		message string
		remedy  string
	}{
		{"exists", []runtime.Object{namespace("team")}, Namespace{Name: "team"}, Pass, `namespace "team" exists and has no owner`, ""},
		{"owner", []runtime.Object{namespace("team", ownedBy("instance.a"))}, Namespace{Name: "team", Owner: "instance.a"}, Pass, `namespace "team" exists and belongs to "instance.a"`, ""},
		{"any owner", []runtime.Object{namespace("team", ownedBy("instance.a"))}, Namespace{Name: "team"}, Pass, `namespace "team" exists and belongs to "instance.a"`, ""},
		{"manager", []runtime.Object{namespace("team", managedBy("Helm"))}, Namespace{Name: "team", Owner: "instance.a"}, Pass, `namespace "team" exists and is managed by "Helm"`, ""},
		{
			"another owner",
			[]runtime.Object{namespace("team", ownedBy("instance.b"))},
			Namespace{Name: "team", Owner: "instance.a"},
			Fail,
			`refusing: namespace "team" on shared belongs to another owner ("instance.b")`, "Give a different namespace, or a different cluster.",
		},
		{
			"terminating",
			[]runtime.Object{namespace("team", terminating)},
			Namespace{Name: "team", MayBeMissing: true},
			Fail,
			`namespace "team" on shared is terminating, so nothing can be created in it`, "kubectl get namespace team -o jsonpath='{.status.conditions}'",
		},
		{"missing", nil, Namespace{Name: "team"}, Fail, `namespace "team" does not exist on shared`, "kubectl create namespace team"},
		{"created later", nil, Namespace{Name: "team", MayBeMissing: true}, Pass, `namespace "team" does not exist yet and will be created`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			checks := CheckNamespace(t.Context(), newFake(t, test.objects...), test.wanted)
			equal(t, len(checks), 1)
			expect(t, checks[0], "namespaces/team", test.status, test.message, test.remedy)
		})
	}
	c := newFake(t)
	c.planned["Namespace /team"] = true
	equal(t, CheckNamespace(t.Context(), c, Namespace{Name: "team"})[0].Status, Pass)
	c.refuse["get namespaces"] = forbidden("namespaces")
	checks := CheckNamespace(t.Context(), c, Namespace{Name: "team", PodSecurity: "baseline"})
	if checks[0].Status != Warn || !strings.Contains(checks[0].Remedy, "resourceNames:\n  - team\n") {
		t.Errorf("got %+v", checks[0])
	}
	expect(t, checks[1], "pod_security/team", Skipped, `namespace "team" could not be read`, "")
}

func TestPodSecurity(t *testing.T) {
	const label = "pod-security.kubernetes.io/enforce"
	for _, test := range []struct {
		enforced, wanted string
		status           Status
	}{
		{"privileged", "privileged", Pass},
		{"privileged", "baseline", Pass},
		{"privileged", "restricted", Pass},
		{"baseline", "privileged", Fail},
		{"baseline", "baseline", Pass},
		{"baseline", "restricted", Pass},
		{"restricted", "privileged", Fail},
		{"restricted", "baseline", Fail},
		{"restricted", "restricted", Pass},
		{"Baseline", "baseline", Fail},
		{"Baseline", "restricted", Pass},
	} {
		t.Run(test.enforced+" "+test.wanted, func(t *testing.T) {
			c := newFake(t, namespace("team", enforces(test.enforced)))
			check := CheckNamespace(t.Context(), c, Namespace{Name: "team", PodSecurity: test.wanted})[1]
			if test.status == Pass {
				expect(t, check, "pod_security/team", Pass, `namespace "team" enforces the Pod Security level "`+test.enforced+`", which admits pods of level "`+test.wanted+`"`, "")
				return
			}
			expect(t, check, "pod_security/team", Fail, `namespace "team" enforces the Pod Security level "`+test.enforced+`", which refuses pods that need "`+test.wanted+`"`,
				"kubectl label --overwrite namespace team "+label+"="+test.wanted)
		})
	}
	wanted := Namespace{Name: "team", PodSecurity: "privileged", MayBeMissing: true}
	expect(t, CheckNamespace(t.Context(), newFake(t, namespace("team")), wanted)[1], "pod_security/team", Pass,
		`namespace "team" has no label `+label+`, so the cluster's default holds, which is privileged unless its administrator chose another`, "")
	expect(t, CheckNamespace(t.Context(), newFake(t), wanted)[1], "pod_security/team", Skipped, `namespace "team" does not exist yet`, "")
}

func TestPriorityClass_J39(t *testing.T) {
	c := newFake(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "platform-critical"}})
	c.planned["PriorityClass /batch-low"] = true
	control := ObjectRef{Attribute: "priority_classes.control", Name: "platform-critical"}
	expect(t, CheckPriorityClass(t.Context(), c, control), "priority_classes/platform-critical", Pass, `PriorityClass "platform-critical" exists`, "")
	sandbox := ObjectRef{Attribute: "priority_classes.sandbox", Name: "batch-low"}
	expect(t, CheckPriorityClass(t.Context(), c, sandbox), "priority_classes/batch-low", Pass, `PriorityClass "batch-low" is created by this run`, "")
	delete(c.planned, "PriorityClass /batch-low")
	expect(t, CheckPriorityClass(t.Context(), c, sandbox), "priority_classes/batch-low", Fail,
		`priority_classes.sandbox names PriorityClass "batch-low", which shared does not have: Kubernetes creates no pod that names a class that the cluster does not have`,
		"Create it first, name it by reference to the resource that creates it, or name another one: kubectl get priorityclasses")
	c.refuse["get priorityclasses"] = forbidden("priorityclasses")
	unknown := CheckPriorityClass(t.Context(), c, control)
	if unknown.Status != Warn || !strings.HasPrefix(unknown.Message, `unknown: could not find out whether PriorityClass "platform-critical" exists: `) {
		t.Errorf("got %+v", unknown)
	}
}

func storageClass(name string, isDefault bool) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if isDefault {
		metav1.SetMetaDataAnnotation(&class.ObjectMeta, "storageclass.kubernetes.io/is-default-class", "true")
	}
	return class
}

func TestStorageClasses(t *testing.T) {
	fast, slow := storageClass("fast", false), storageClass("slow", false)
	c := newFake(t, fast, slow)
	expect(t, CheckStorageClass(t.Context(), c, ObjectRef{"storage_classes[0]", "fast"}), "storage_classes/fast", Pass, `StorageClass "fast" exists`, "")
	expect(t, CheckStorageClass(t.Context(), c, ObjectRef{"storage_classes[1]", "gold"}), "storage_classes/gold", Fail,
		`storage_classes[1] names StorageClass "gold", which shared does not have`, "kubectl get storageclasses")

	const name = "default_storage_class"
	expect(t, CheckDefaultStorageClass(t.Context(), c), name, Fail,
		`shared has the StorageClasses "fast", "slow", none of which is the default: a volume claim that names no class would stay Pending`, "is-default-class=true")
	expect(t, CheckDefaultStorageClass(t.Context(), newFake(t)), name, Fail, `shared has no StorageClass: a volume claim that names no class would stay Pending`, "Name a class")
	expect(t, CheckDefaultStorageClass(t.Context(), newFake(t, fast, storageClass("std", true))), name, Pass, `StorageClass "std" is the default`, "")
	expect(t, CheckDefaultStorageClass(t.Context(), newFake(t, storageClass("std", true), storageClass("new", true))), name, Warn,
		`shared has several default StorageClasses ("new", "std"): Kubernetes takes the newest of them`, "leave one default")
	c.refuse["list storageclasses"] = forbidden("storageclasses")
	unknown := CheckDefaultStorageClass(t.Context(), c)
	if unknown.Status != Warn || !strings.Contains(unknown.Remedy, "  - storageclasses\n  verbs:\n  - list\n") {
		t.Errorf("got %+v", unknown)
	}
}

func TestSecrets_J59_J60_J61_J62(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "my-instance", Name: "git"}, Data: map[string][]byte{"token": []byte("hunter2"), "user": []byte("hunter2")}}
	ref := func(name string, keys ...string) SecretRef {
		return SecretRef{Attribute: "required_secrets[1]", Namespace: "my-instance", Name: name, Keys: keys}
	}
	c := newFake(t, namespace("my-instance"), secret)
	c.planned["Secret my-instance/planned"] = true
	for _, test := range []struct {
		name    string
		ref     SecretRef
		status  Status
		message string
		remedy  string
	}{
		{"exists", ref("git"), Pass, `Secret "git" exists in namespace "my-instance"`, ""},
		{"has the key", ref("git", "token"), Pass, `Secret "git" exists in namespace "my-instance" with key "token"`, ""},
		{
			"J60 missing", ref("model", "key", "url"), Fail, `required_secrets[1] names Secret "model", which does not exist in namespace "my-instance"`,
			"Create it first: kubectl -n my-instance create secret generic model --from-literal=key=... --from-literal=url=...",
		},
		{
			"J61 missing, any key", ref("model"), Fail, `required_secrets[1] names Secret "model", which does not exist in namespace "my-instance"`,
			"Create it first: kubectl -n my-instance create secret generic model --from-literal=KEY=...",
		},
		{
			"J62 lacks keys", ref("git", "ssh", "token", "ca"), Fail,
			`required_secrets[1] names keys "ssh", "ca" of Secret "git" in namespace "my-instance", which it lacks; it has keys "token", "user"`,
			`kubectl -n my-instance patch secret git --type=merge -p '{"stringData":{"ssh":"...","ca":"..."}}'`,
		},
		{"J59 planned", ref("planned", "token"), Skipped, `Secret "planned" in namespace "my-instance" is created by this run; it is checked when the run applies`, ""},
		{
			"J59 namespace to come",
			SecretRef{Attribute: "required_secrets[0]", Namespace: "later", Name: "git"},
			Skipped,
			`namespace "later" does not exist yet, so Secret "git" is checked when the run applies`, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := CheckSecret(t.Context(), c, test.ref)
			expect(t, check, "secrets/"+test.ref.Namespace+"/"+test.ref.Name, test.status, test.message, test.remedy)
			if strings.Contains(check.Detail(), "hunter2") || strings.Contains(check.Detail(), "aHVudGVyMg") {
				t.Errorf("X9: a value is shown: %s", check.Detail())
			}
		})
	}
	c.refuse["get secrets"] = forbidden("secrets")
	unknown := CheckSecret(t.Context(), c, ref("git"))
	if unknown.Status != Warn || !strings.Contains(unknown.Remedy, "kind: Role\n") || !strings.Contains(unknown.Remedy, "resourceNames:\n  - git\n") {
		t.Errorf("got %+v", unknown)
	}
}
