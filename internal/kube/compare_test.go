package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// object reads an object from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		if err = found.UnmarshalJSON(body); err != nil {
			// Objects without a kind are fine for comparisons.
			err = yaml.Unmarshal([]byte(text), &found.Object)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func texts(differences []Difference) string {
	lines := make([]string, len(differences))
	for i, difference := range differences {
		lines[i] = difference.String()
	}
	return strings.Join(lines, "\n")
}

// Only what we declare counts, item by item and in the API's own terms (promises 6 and 9 of the design).
func TestCompare(t *testing.T) {
	for name, one := range map[string]struct{ desired, live, want string }{
		"equal, with more there than we set": {
			desired: "kind: A\nspec: {replicas: 2}", live: "kind: A\nspec: {replicas: 2, paused: true}\nmetadata: {uid: x}",
		},
		"a field that differs": {
			desired: "kind: A\nspec: {replicas: 2, strategy: {type: Recreate}}", live: "kind: A\nspec: {replicas: 3}",
			want: "spec.replicas: 3 → 2\nspec.strategy.type: (none) → Recreate",
		},
		"nothing is nothing": {
			desired: "kind: A\nspec: {selector: {}, items: []}", live: "kind: A",
		},
		"labels are named readably": {
			desired: "kind: A\nmetadata: {labels: {app.kubernetes.io/name: a, team: b}}", live: "kind: A\nmetadata: {labels: {app.kubernetes.io/name: c}}",
			want: "metadata.labels.[app.kubernetes.io/name]: c → a\nmetadata.labels.team: (none) → b",
		},
		"containers and their variables by name, in any order": {
			desired: "kind: A\nspec: {containers: [{name: app, image: 'a:2', env: [{name: X, value: '1'}]}, {name: side, image: b}]}",
			live:    "kind: A\nspec: {containers: [{name: side, image: b}, {name: injected, image: c}, {name: app, image: 'a:1', env: [{name: X, value: '2'}]}]}",
			want:    "spec.containers[name=app].env[name=X].value: 2 → 1\nspec.containers[name=app].image: a:1 → a:2",
		},
		"other lists as a whole, in their order": {
			desired: "kind: A\nspec: {args: [a, b]}", live: "kind: A\nspec: {args: [b, a]}",
			want: "spec.args: `[\"b\",\"a\"]` → `[\"a\",\"b\"]`",
		},
		"quantities by amount": {
			desired: "kind: A\nspec: {resources: {limits: {cpu: 1000m, memory: 1Gi}}, hard: {requests.cpu: '2'}}",
			live:    "kind: A\nspec: {resources: {limits: {cpu: '1', memory: 1024Mi}}, hard: {requests.cpu: 2000m}}",
		},
		"a quantity that differs": {
			desired: "kind: A\nspec: {resources: {limits: {memory: 1Gi}}}", live: "kind: A\nspec: {resources: {limits: {memory: 1G}}}",
			want: "spec.resources.limits.memory: 1G → 1Gi",
		},
		"a string is no number": {
			desired: "kind: A\nspec: {value: '1'}", live: "kind: A\nspec: {value: 1}", want: "spec.value: 1 → 1",
		},
		"a Secret's values are masked": {
			desired: "kind: Secret\ndata: {password: bmV3}\ntype: Opaque", live: "kind: Secret\ndata: {password: b2xk}\ntype: Other",
			want: "data.password: (sensitive value) → (sensitive value)\ntype: Other → Opaque",
		},
		"status is never ours": {
			desired: "kind: A\nstatus: {phase: Ready}", live: "kind: A\nstatus: {phase: Failed}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(Compare(object(t, one.desired), object(t, one.live))); got != one.want {
				t.Errorf("got\n%s\nwant\n%s", got, one.want)
			}
		})
	}
	long := object(t, "kind: A\nspec: {text: "+strings.Repeat("ä", 500)+"}")
	if got := Compare(long, object(t, "kind: A"))[0].Wanted; got != strings.Repeat("ä", 200)+"…" {
		t.Errorf("a long value is shown as %q", got)
	}
}

// What the API leaves out while it is false is no difference; what somebody set to true is.
func TestCompareOmitted(t *testing.T) {
	class := Object{Desired: object(t, "kind: PriorityClass\nvalue: 0\nglobalDefault: false"), Omitted: map[string]any{"value": int64(0), "globalDefault": false}}
	if got := texts(class.Compare(object(t, "kind: PriorityClass"))); got != "" {
		t.Errorf("left out: %s", got)
	}
	live := object(t, "kind: PriorityClass\nglobalDefault: true")
	if got := texts(class.Compare(live)); got != "globalDefault: true → false" {
		t.Errorf("set: %s", got)
	}
	if _, changed := live.Object["value"]; changed {
		t.Error("the compared object was changed")
	}
}
