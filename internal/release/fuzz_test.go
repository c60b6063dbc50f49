package release

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	helm "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Whatever is in a Secret that says it holds a release, reading it ends in a release or an error.
func FuzzRecord(f *testing.F) {
	good, err := encode(&helm.Release{Name: "app", Version: 1, Info: &helm.Info{Status: helm.StatusDeployed}, Manifest: "kind: ConfigMap"})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", "aGVsbG8=", base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(`{"name":"a","info":{},"version":1,"chart":{"metadata":null}}`))))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		one, err := readRecord(&unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"release": data}, "metadata": map[string]any{"name": "s"}}})
		if err != nil {
			return
		}
		chartOf(one)
		one.crds()
		one.writer()
		if _, err := encode(one.Release); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

// Whatever the values and paths are, merging them ends in values or an error, and a secret that was set can be found, hidden
// and taken out again.
func FuzzValues(f *testing.F) {
	for _, seed := range [][3]string{
		{"a: {b: 1}\n", "a.c", "secret-value"}, {"- 1", "a[0].b", "x,y"}, {"a: [1, 2]", "a[1]", "{z}"}, {"x: &a [*a]", `a\.b`, `q"uote`}, {"", "a[", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, document, path, secret string) {
		if strings.Count(path, "[") > 0 && len(path) > 40 {
			return // an index of a million makes a list of a million
		}
		values, err := MergeValues([]string{document, document}, map[string]string{path: secret})
		if err != nil {
			if len(secret) > 12 && !strings.Contains(path, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the secret in it: %v", err)
			}
			return
		}
		if text, found := at(values, path); !found || text != secret {
			t.Errorf("%q is %q at %q", secret, text, path)
		}
		if text, found := at(without(values, []string{path}), path); found && text != "" {
			t.Errorf("%q is left at %q", text, path)
		}
		if len(secret) >= shortestHidden && hide(values, []string{path}).holds(secret) == (secret == sensitive) {
			t.Errorf("%q is not hidden", secret)
		}
	})
}

// Whatever a manifest is, reading it ends in objects with a kind and a name, or an error.
func FuzzManifest(f *testing.F) {
	f.Add("---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n")
	f.Add("---\n# nothing\n---\nkind: Secret\nstringData: {a: 1}\nmetadata: {name: [a]}\n")
	f.Fuzz(func(t *testing.T, manifest string) {
		objects, err := parseManifest(manifest)
		if err == nil && slices.ContainsFunc(objects, func(one *unstructured.Unstructured) bool { return one.GetKind() == "" || one.GetName() == "" }) {
			t.Errorf("an object without kind or name: %v", objects)
		}
		for _, one := range objects {
			plainSecret(one)
			kindsOf([]*unstructured.Unstructured{one})
			belongs(one, Ref{})
			owned(object{Unstructured: one}, Ref{Namespace: "a", Name: "b"})
		}
	})
}
