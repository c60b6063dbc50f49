package kube

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// by is one entry of metadata.managedFields; its fields are written as a YAML flow.
type by struct{ manager, subresource, fields, time string }

const createdAt = "2026-01-01T00:00:00Z"

// owned is a live object with the entries in its managedFields.
func owned(t *testing.T, text string, entries ...by) *unstructured.Unstructured {
	t.Helper()
	live := object(t, text)
	var list []any
	for _, entry := range entries {
		var set map[string]any
		if err := yaml.Unmarshal([]byte(entry.fields), &set); err != nil {
			t.Fatal(err)
		}
		one := map[string]any{"manager": entry.manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": set, "time": "2026-01-01T00:10:00Z"}
		if entry.subresource != "" {
			one["subresource"] = entry.subresource
		}
		if entry.time != "" {
			one["time"] = entry.time
		}
		list = append(list, one)
	}
	for path, value := range map[string]any{"managedFields": list, "creationTimestamp": createdAt} {
		if err := unstructured.SetNestedField(live.Object, value, "metadata", path); err != nil {
			t.Fatal(err)
		}
	}
	return live
}

// sameObject fails the test unless two objects are the same JSON.
func sameObject(t *testing.T, what string, got, want *unstructured.Unstructured) {
	t.Helper()
	texts := make([]string, 2)
	for i, one := range []*unstructured.Unstructured{got, want} {
		text, err := json.Marshal(one.Object)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Errorf("%s:\n got %s\nwant %s", what, texts[0], texts[1])
	}
}

func extraTexts(extra []ExtraField) string {
	lines := make([]string, len(extra))
	for i, one := range extra {
		lines[i] = one.Path + " by " + one.Manager + ": " + one.Value
	}
	return strings.Join(lines, "\n")
}

// What a controller has taken, or an autoscaler scaled, or the configuration exempts, yields; what a person changed does
// not (promise 6 of the design).
func TestYield(t *testing.T) {
	const deployment = "kind: Deployment\nspec: {replicas: 2, template: {spec: {containers: [{name: app, image: 'a:1', ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP, name: u}]}]}}}"
	const image = "{f:spec: {f:template: {f:spec: {f:containers: {'k:{\"name\":\"app\"}': {f:image: {}}}}}}}"
	changed := strings.NewReplacer("replicas: 2", "replicas: 5", "a:1", "a:2")
	for name, one := range map[string]struct {
		wanted, live string
		entries      []by
		ignore       []string
		want         string
	}{
		"nobody but us": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "us", fields: "{f:spec: {f:replicas: {}}}"}},
		},
		"no managers at all": {wanted: deployment, live: changed.Replace(deployment), want: deployment},
		"an autoscaler through the scale subresource": {
			wanted: deployment, live: changed.Replace(deployment), want: strings.Replace(deployment, "replicas: 2", "replicas: 5", 1),
			entries: []by{{manager: "my-own-thing", subresource: "scale", fields: "{f:spec: {f:replicas: {}}}"}, {manager: "my-own-thing", fields: image}},
		},
		"a person through the scale subresource": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "kubectl", subresource: "scale", fields: "{f:spec: {f:replicas: {}}}"}},
		},
		"a controller": {
			wanted: deployment, live: changed.Replace(deployment), want: strings.Replace(deployment, "a:1", "a:2", 1),
			entries: []by{{manager: "Image-Updater-Controller", fields: image}, {manager: "k9s", fields: "{f:spec: {f:replicas: {}}}"}},
		},
		"a controller that shares the field with us": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "flagger", fields: image}, {manager: "us", fields: image}},
		},
		"a controller that wrote the status": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "flagger", subresource: "status", fields: image}},
		},
		"a plugin of kubectl is a person's": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "kubectl-rollouts-controller", fields: image}},
		},
		"an unknown manager": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "deploy-bot", fields: image}},
		},
		"an item whose key the server completed": {
			wanted:  "kind: Pod\nspec: {ports: [{port: 53}, {port: 53, protocol: UDP}]}",
			live:    "kind: Pod\nspec: {ports: [{port: 53, protocol: UDP, node: 2}, {port: 53, protocol: TCP, node: 1}]}",
			entries: []by{{manager: "controller", fields: `{f:spec: {f:ports: {'k:{"port":53,"protocol":"TCP"}': {f:protocol: {}}}}}`}},
			want:    "kind: Pod\nspec: {ports: [{port: 53}, {port: 53, protocol: UDP}]}",
		},
		"fields of an item whose key the server completed": {
			wanted:  "kind: Pod\nspec: {ports: [{port: 53, node: 7}, {port: 53, protocol: UDP, node: 8}]}",
			live:    "kind: Pod\nspec: {ports: [{port: 53, protocol: UDP, node: 2}, {port: 53, protocol: TCP, node: 1}]}",
			entries: []by{{manager: "controller", fields: `{f:spec: {f:ports: {'k:{"port":53,"protocol":"TCP"}': {f:node: {}}}}}`}},
			want:    "kind: Pod\nspec: {ports: [{port: 53, node: 1}, {port: 53, protocol: UDP, node: 8}]}",
		},
		"an item of a controller, in its place": {
			wanted: "kind: A\nspec: {items: [{name: a}, {name: c}], set: [x]}", live: "kind: A\nspec: {items: [{name: a}, {name: b, v: 1}, {name: c}], set: [w, x, z]}",
			entries: []by{{manager: "injector", fields: `{f:spec: {f:items: {'k:{"name":"b"}': {.: {}, f:name: {}, f:v: {}}}, f:set: {'v:"w"': {}, 'v:"z"': {}}}}`}},
			want:    "kind: A\nspec: {items: [{name: a}, {name: b, v: 1}, {name: c}], set: [w, x, z]}",
		},
		"an item of a person": {
			wanted: "kind: A\nspec: {items: [{name: a}]}", live: "kind: A\nspec: {items: [{name: a}, {name: b}]}",
			entries: []by{{manager: "kubectl-edit", fields: `{f:spec: {f:items: {'k:{"name":"b"}': {.: {}, f:name: {}}}}}`}},
			want:    "kind: A\nspec: {items: [{name: a}]}",
		},
		"a list taken as a whole": {
			wanted: "kind: A\nspec: {args: [a, b]}", live: "kind: A\nspec: {args: [c]}", want: "kind: A\nspec: {args: [c]}",
			entries: []by{{manager: "operator", fields: "{f:spec: {f:args: {}}}"}},
		},
		"a map of which a controller only owns that it is there": {
			wanted: "kind: A\nmetadata: {labels: {a: '1', b: '2'}}", live: "kind: A\nmetadata: {labels: {a: '2', b: '3'}}", want: "kind: A\nmetadata: {labels: {a: '1', b: '3'}}",
			entries: []by{{manager: "operator", fields: "{f:metadata: {f:labels: {.: {}, f:b: {}}}}"}, {manager: "kubectl-label", fields: "{f:metadata: {f:labels: {f:a: {}}}}"}},
		},
		"what was removed by hand": {
			wanted: "kind: A\nspec: {a: 1, b: {c: 1}}", live: "kind: A\nspec: {b: {}}", want: "kind: A\nspec: {a: 1, b: {c: 1}}",
			entries: []by{{manager: "operator", fields: "{f:spec: {f:a: {}, f:b: {}}}"}},
		},
		"a CA bundle of an unknown manager": {
			wanted:  "kind: ValidatingWebhookConfiguration\nwebhooks: [{name: a, clientConfig: {caBundle: " + strings.Repeat("Q", 800) + "}}]",
			live:    "kind: ValidatingWebhookConfiguration\nwebhooks: [{name: a, clientConfig: {caBundle: " + strings.Repeat("R", 800) + "}}]",
			want:    "kind: ValidatingWebhookConfiguration\nwebhooks: [{name: a, clientConfig: {caBundle: " + strings.Repeat("R", 800) + "}}]",
			entries: []by{{manager: "cert-job", fields: `{f:webhooks: {'k:{"name":"a"}': {f:clientConfig: {f:caBundle: {}}}}}`}},
		},
		"a CA bundle of a person": {
			wanted:  "kind: APIService\nspec: {caBundle: " + strings.Repeat("Q", 800) + "}",
			live:    "kind: APIService\nspec: {caBundle: " + strings.Repeat("R", 800) + "}",
			want:    "kind: APIService\nspec: {caBundle: " + strings.Repeat("Q", 800) + "}",
			entries: []by{{manager: "kubectl-patch", fields: "{f:spec: {f:caBundle: {}}}"}},
		},
		"a CA bundle of a person where we want a placeholder": {
			wanted:  "kind: CustomResourceDefinition\nspec: {conversion: {webhook: {clientConfig: {caBundle: Cg==}}}}",
			live:    "kind: CustomResourceDefinition\nspec: {conversion: {webhook: {clientConfig: {caBundle: R}}}}",
			want:    "kind: CustomResourceDefinition\nspec: {conversion: {webhook: {clientConfig: {caBundle: R}}}}",
			entries: []by{{manager: "kubectl-patch", fields: "{f:spec: {f:conversion: {f:webhook: {f:clientConfig: {f:caBundle: {}}}}}}"}},
		},
		"a field called caBundle elsewhere": {
			wanted: "kind: A\nspec: {caBundle: ''}", live: "kind: A\nspec: {caBundle: R}", want: "kind: A\nspec: {caBundle: ''}",
			entries: []by{{manager: "cert-job", fields: "{f:spec: {f:caBundle: {}}}"}},
		},
		"ignored fields": {
			wanted: deployment, live: changed.Replace(deployment), want: changed.Replace(deployment),
			ignore: []string{"/spec/replicas", "/spec/template/spec/containers/0/image"},
		},
		"an ignored index is that of the live list": {
			wanted: "kind: A\nspec: {items: [{name: a, v: 1}, {name: b, v: 1}], args: [x, y, z], more: [x]}", live: "kind: A\nspec: {items: [{name: new}, {name: b, v: 2}, {name: a, v: 2}], args: [k, l, m], more: [x, y]}",
			want:   "kind: A\nspec: {items: [{name: a, v: 1}, {name: b, v: 2}], args: [x, l, z], more: [x, y]}",
			ignore: []string{"/spec/items/1/v", "/spec/args/1", "/spec/args/9", "/spec/args/-", "/spec/more/1"},
		},
		"an ignored field that live has not": {
			wanted: "kind: A\nspec: {replicas: 2, deep: {er: 1, est: 2}, 'a/b~c': 1}", live: "kind: A\nspec: {}", want: "kind: A\nspec: {deep: {est: 2}}",
			ignore: []string{"/spec/replicas", "/spec/deep/er", "/spec/a~1b~0c", "spec/deep"},
		},
		"an ignored field that only live has": {
			wanted: "kind: A\nspec: {ports: [{port: 1}]}", live: "kind: A\nspec: {ports: [{port: 1, node: 3}], other: {x: 1}}", want: "kind: A\nspec: {ports: [{port: 1, node: 3}]}",
			ignore: []string{"/spec/ports/0/node", "/spec/other/x"},
		},
		"all of it": {
			wanted: deployment, live: changed.Replace(deployment) + "\nstatus: {x: 1}\nmetadata: {uid: u, resourceVersion: '7', labels: {a: b}}",
			want: changed.Replace(deployment) + "\nmetadata: {labels: {a: b}}", ignore: []string{""},
		},
		"all of the metadata": {
			wanted: "kind: A\nmetadata: {name: a}", live: "kind: A\nmetadata: {name: a, uid: u, generation: 3, labels: {a: b}}", want: "kind: A\nmetadata: {name: a, labels: {a: b}}",
			ignore: []string{"/metadata"},
		},
		"what stands beside an addition in a map that we lack": {
			wanted: "kind: A\nspec: {x: 1}", live: "kind: A\nspec: {x: 1}\nmetadata: {annotations: {mine: a, theirs: b}}",
			want:    "kind: A\nspec: {x: 1}\nmetadata: {annotations: {theirs: b}}",
			entries: []by{{manager: "kubectl-annotate", fields: "{f:metadata: {f:annotations: {.: {}, f:mine: {}}}}"}, {manager: "operator", fields: "{f:metadata: {f:annotations: {f:theirs: {}}}}"}},
		},
		"garbage": {
			wanted: deployment, live: changed.Replace(deployment), want: deployment,
			entries: []by{{manager: "controller", fields: "{x: {}, f:spec: 3, 'k:{': {}, f:spec/replicas: {}, 'i:x': {}, 'v:': {}}"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, live := object(t, one.wanted), owned(t, one.live, one.entries...)
			got := Yield(wanted, live, "us", one.ignore)
			if empty(got.Object["metadata"]) {
				delete(got.Object, "metadata")
			}
			sameObject(t, "yielded", got, object(t, one.want))
			sameObject(t, "the input", wanted, object(t, one.wanted))
			sameObject(t, "what is live", live, owned(t, one.live, one.entries...))
		})
	}
	sameObject(t, "nothing live", Yield(object(t, deployment), nil, "us", []string{""}), object(t, deployment))
}

// What somebody added by hand is found once, at its top; what belongs to tools, controllers and the server is not.
func TestExtra(t *testing.T) {
	for name, one := range map[string]struct {
		wanted, live string
		entries      []by
		ignore       []string
		want         string
	}{
		"an environment variable": {
			wanted:  "kind: A\nspec: {containers: [{name: app}]}",
			live:    "kind: A\nspec: {containers: [{name: app, env: [{name: X, value: '1'}, {name: Z, value: '2'}]}]}",
			entries: []by{{manager: "kubectl-edit", fields: `{f:spec: {f:containers: {'k:{"name":"app"}': {f:env: {.: {}, 'k:{"name":"X"}': {.: {}, f:name: {}, f:value: {}}, 'k:{"name":"Z"}': {.: {}, f:name: {}, f:value: {}}}}}}}`}},
			want:    "spec.containers[name=app].env[name=X] by kubectl-edit: `{\"name\":\"X\",\"value\":\"1\"}`\nspec.containers[name=app].env[name=Z] by kubectl-edit: `{\"name\":\"Z\",\"value\":\"2\"}`",
		},
		"a container, defaults and another's additions included": {
			wanted:  "kind: A\nspec: {containers: [{name: app}]}",
			live:    "kind: A\nspec: {containers: [{name: app, terminationMessagePath: /dev/termination-log}, {name: new, image: m, terminationMessagePath: /dev/termination-log}]}",
			entries: []by{{manager: "k9s", fields: `{f:spec: {f:containers: {'k:{"name":"app"}': {f:terminationMessagePath: {}}, 'k:{"name":"new"}': {.: {}, f:name: {}, f:terminationMessagePath: {}}}}}`}, {manager: "injector", fields: `{f:spec: {f:containers: {'k:{"name":"new"}': {f:image: {}}}}}`}},
			want:    "spec.containers[name=new] by k9s: `{\"image\":\"m\",\"name\":\"new\",\"terminationMessagePath\":\"/dev/termination-log\"}`",
		},
		"keys of a ConfigMap that has none of ours": {
			wanted: "kind: ConfigMap", live: "kind: ConfigMap\ndata: {a.yaml: '1', b: '2', c: '3'}",
			entries: []by{{manager: "Mozilla", fields: "{f:data: {.: {}, f:a.yaml: {}, f:b: {}}}"}, {manager: "some-controller", fields: "{f:data: {f:c: {}}}"}},
			want:    "data.[a.yaml] by Mozilla: 1\ndata.b by Mozilla: 2",
		},
		"keys of a Secret are masked": {
			wanted: "kind: Secret\ndata: {a: eA==}", live: "kind: Secret\ndata: {a: eA==, b: eQ==}", entries: []by{{manager: "curl", fields: "{f:data: {f:b: {}}}"}},
			want: "data.b by curl: (sensitive value)",
		},
		"labels and annotations, but no marks of tools": {
			wanted: "kind: A\nmetadata: {name: a}",
			live:   "kind: A\nmetadata: {name: a, labels: {team: x, app.kubernetes.io/managed-by: Helm, berth.dev/owner: o}, finalizers: [f], ownerReferences: [{uid: u}], annotations: {note: hi, kubectl.kubernetes.io/last-applied-configuration: l, deployment.kubernetes.io/revision: '1', berth.dev/step: s, meta.helm.sh/release-name: r}}\nspec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: now}}}}\nstatus: {x: 1}",
			entries: []by{{manager: "deploy-bot", fields: `{f:metadata: {f:labels: {.: {}, f:team: {}, f:app.kubernetes.io/managed-by: {}, f:berth.dev/owner: {}}, f:finalizers: {.: {}, 'v:"f"': {}}, f:ownerReferences: {.: {}, 'k:{"uid":"u"}': {}}, f:annotations: {.: {}, f:note: {}, f:kubectl.kubernetes.io/last-applied-configuration: {}, f:deployment.kubernetes.io/revision: {}, f:berth.dev/step: {}, f:meta.helm.sh/release-name: {}}},
  f:spec: {f:template: {f:metadata: {f:annotations: {.: {}, f:kubectl.kubernetes.io/restartedAt: {}}}}}, f:status: {.: {}, f:x: {}}}`}},
			want: "metadata.annotations.note by deploy-bot: hi\nmetadata.labels.team by deploy-bot: x",
		},
		"controllers, the scale subresource, the status, Helm and what was there before managers": {
			wanted: "kind: A", live: "kind: A\nspec: {a: x, replicas: 3, b: x, c: x, d: x}",
			entries: []by{
				{manager: "istiod", fields: "{f:spec: {f:a: {}}}"},
				{manager: "kubectl", subresource: "scale", fields: "{f:spec: {f:replicas: {}}}"},
				{manager: "kubectl", subresource: "status", fields: "{f:spec: {f:b: {}}}"},
				{manager: "terraform-provider-helm_v3.1.0_x5", fields: "{f:spec: {f:c: {}}}"},
				{manager: "before-first-apply", fields: "{f:spec: {f:d: {}}}"},
			},
		},
		"ours too, and a person's at our value": {
			wanted: "kind: A\nspec: {b: 1}", live: "kind: A\nspec: {a: x, b: 1}",
			entries: []by{{manager: "us", fields: "{f:spec: {f:a: {}, f:b: {}}}"}, {manager: "kubectl", fields: "{f:spec: {f:a: {}, f:b: {}}}"}},
		},
		"a struct with its defaults": {
			wanted: "kind: A\nspec: {}", live: "kind: A\nspec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}, probe: {periodSeconds: 10, exec: {command: [a]}}, serviceAccount: s, serviceAccountName: s}",
			entries: []by{{manager: "kubectl-edit", fields: "{f:spec: {f:strategy: {.: {}, f:type: {}, f:rollingUpdate: {.: {}, f:maxSurge: {}, f:maxUnavailable: {}}}, f:probe: {.: {}, f:periodSeconds: {}, f:exec: {.: {}, f:command: {}}}, f:serviceAccount: {}, f:serviceAccountName: {}}}"}},
			want:    "spec.probe by kubectl-edit: `{\"exec\":{\"command\":[\"a\"]},\"periodSeconds\":10}`\nspec.serviceAccountName by kubectl-edit: s",
		},
		"a field of a struct that the server filled in for us": {
			wanted: "kind: A\nspec: {}", live: "kind: A\nspec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 50%, maxUnavailable: 25%}}}",
			entries: []by{{manager: "us", fields: "{f:spec: {f:strategy: {.: {}, f:type: {}, f:rollingUpdate: {.: {}, f:maxUnavailable: {}}}}}"}, {manager: "kubectl-edit", fields: "{f:spec: {f:strategy: {f:rollingUpdate: {f:maxSurge: {}}}}}"}},
			want:    "spec.strategy.rollingUpdate.maxSurge by kubectl-edit: 50%",
		},
		"in maps and lists that have one owner": {
			wanted:  "kind: RoleBinding\nsubjects: [{kind: User, name: a}]\nspec: {nodeSelector: {a: '1'}, args: [a]}",
			live:    "kind: RoleBinding\nsubjects: [{kind: User, name: a, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: eve, apiGroup: rbac.authorization.k8s.io}]\nspec: {nodeSelector: {a: '1', b: '2'}, args: [a, b]}",
			entries: []by{{manager: "kubectl-edit", fields: "{f:subjects: {}, f:spec: {f:nodeSelector: {}, f:args: {}}}"}},
			want:    "spec.nodeSelector.b by kubectl-edit: 2\nsubjects[name=eve] by kubectl-edit: `{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"User\",\"name\":\"eve\"}`",
		},
		"an item with a key of two fields, and one of a set": {
			wanted: "kind: A\nspec: {ports: [{port: 53}], set: [a]}", live: "kind: A\nspec: {ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}], set: [a, b]}",
			entries: []by{{manager: "kubectl-edit", fields: `{f:spec: {f:ports: {'k:{"port":53,"protocol":"TCP"}': {.: {}, f:port: {}, f:protocol: {}}, 'k:{"port":53,"protocol":"UDP"}': {.: {}, f:port: {}, f:protocol: {}}}, f:set: {'v:"b"': {}}}}`}},
			want:    "spec.ports[port=53,protocol=UDP] by kubectl-edit: `{\"port\":53,\"protocol\":\"UDP\"}`\nspec.set[b] by kubectl-edit: b",
		},
		"ignored": {
			wanted: "kind: A\nspec: {containers: [{name: app}]}", live: "kind: A\nspec: {containers: [{name: app, env: [{name: X}, {name: Z}], resources: {limits: {cpu: 1}, requests: {cpu: 1}}}]}\nmetadata: {labels: {a: b}}",
			entries: []by{{manager: "kubectl-edit", fields: `{f:metadata: {f:labels: {.: {}, f:a: {}}}, f:spec: {f:containers: {'k:{"name":"app"}': {f:resources: {.: {}, f:limits: {.: {}, f:cpu: {}}, f:requests: {.: {}, f:cpu: {}}}, f:env: {.: {}, 'k:{"name":"X"}': {.: {}, f:name: {}}, 'k:{"name":"Z"}': {.: {}, f:name: {}}}}}}}`}},
			ignore:  []string{"/metadata/labels", "/spec/containers/0/env/0", "/spec/containers/0/resources/limits", "no pointer"},
			want:    "spec.containers[name=app].env[name=Z] by kubectl-edit: `{\"name\":\"Z\"}`\nspec.containers[name=app].resources.requests by kubectl-edit: `{\"cpu\":1}`",
		},
		"all ignored": {
			wanted: "kind: A", live: "kind: A\nspec: {a: 1}", entries: []by{{manager: "kubectl-edit", fields: "{f:spec: {.: {}, f:a: {}}}"}}, ignore: []string{""},
		},
		"what the object was created with, before it was adopted": {
			wanted: "kind: A\nspec: {a: 1}", live: "kind: A\nspec: {a: 1, filledIn: true, later: true}",
			entries: []by{{manager: "kubectl-create", time: createdAt, fields: "{f:spec: {.: {}, f:a: {}, f:filledIn: {}}}"}, {manager: "kubectl-edit", fields: "{f:spec: {f:later: {}}}"}},
			want:    "spec.later by kubectl-edit: true",
		},
		"added in the second in which we created it": {
			wanted: "kind: A\nspec: {a: 1}", live: "kind: A\nspec: {a: 2, b: true}",
			entries: []by{{manager: "us", time: createdAt, fields: "{f:spec: {.: {}}}"}, {manager: "kubectl-edit", time: createdAt, fields: "{f:spec: {f:a: {}, f:b: {}}}"}},
			want:    "spec.b by kubectl-edit: true",
		},
		"two persons": {
			wanted: "kind: A\nmetadata: {labels: {}}", live: "kind: A\nmetadata: {labels: {a: b}}", entries: []by{{manager: "x", fields: "{f:metadata: {f:labels: {f:a: {}}}}"}, {manager: "y", fields: "{f:metadata: {f:labels: {f:a: {}}}}"}},
			want: "metadata.labels.a by x, y: b",
		},
		"no managers at all": {wanted: "kind: A", live: "kind: A\nspec: {a: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Extra(object(t, one.wanted), owned(t, one.live, one.entries...), "us", one.ignore)
			if extraTexts(got) != one.want {
				t.Errorf("got\n%s\nwant\n%s", extraTexts(got), one.want)
			}
		})
	}
	if got := Extra(object(t, "kind: A"), nil, "us", nil); got != nil {
		t.Errorf("nothing live: %v", got)
	}
}

// The extra fields are in the original of a three-way merge, whether or not the manifest has what is above them.
func TestWithExtra(t *testing.T) {
	live := owned(t, "kind: A\nmetadata: {name: a, labels: {a: b}}\nspec: {containers: [{name: app, ports: [{port: 1, protocol: TCP}], env: [{name: X, value: '1'}]}, {name: injected, env: [{name: Z}]}], set: [a, b]}",
		by{manager: "kubectl-edit", fields: `{f:metadata: {f:labels: {.: {}, f:a: {}}}, f:spec: {f:set: {'v:"b"': {}}, f:containers: {'k:{"name":"app"}': {f:ports: {'k:{"port":1,"protocol":"TCP"}': {.: {}}}, f:env: {.: {}, 'k:{"name":"X"}': {.: {}}}}, 'k:{"name":"injected"}': {f:env: {.: {}, 'k:{"name":"Z"}': {.: {}}}}}}}`},
		by{manager: "injector", fields: `{f:spec: {f:containers: {'k:{"name":"injected"}': {.: {}, f:name: {}}}}}`})
	base := object(t, "kind: A\nmetadata: {name: a}\nspec: {containers: [{name: app}], set: [a]}")
	extra := Extra(base, live, "us", nil)
	sameObject(t, "with all", WithExtra(base, live, extra), object(t,
		"kind: A\nmetadata: {name: a, labels: {a: b}}\nspec: {containers: [{name: app, ports: [{port: 1, protocol: TCP}], env: [{name: X, value: '1'}]}, {name: injected, env: [{name: Z}]}], set: [a, b]}"))
	sameObject(t, "the base", base, object(t, "kind: A\nmetadata: {name: a}\nspec: {containers: [{name: app}], set: [a]}"))
	sameObject(t, "with none", WithExtra(base, live, nil), base)
	sameObject(t, "gone since", WithExtra(base, object(t, "kind: A"), extra), base)
	sameObject(t, "nothing live", WithExtra(base, nil, extra), base)
	sameObject(t, "what stays", Yield(base, live, "us", nil), object(t, "kind: A\nmetadata: {name: a}\nspec: {containers: [{name: app}, {name: injected}], set: [a]}"))
}

// Two states of an object differ field by field, in either direction, without what only the server sets.
func TestDiff(t *testing.T) {
	for name, one := range map[string]struct{ before, after, want string }{
		"equal but for the server's": {
			before: "kind: A\nmetadata: {uid: a, resourceVersion: '1', generation: 1, creationTimestamp: x, selfLink: l, managedFields: [{manager: a}]}\nstatus: {a: 1}\nspec: {}",
			after:  "kind: A\nmetadata: {uid: b, resourceVersion: '2', generation: 2}\nspec: {a: [], b: {}}",
		},
		"changed, added and removed": {
			before: "kind: A\nspec: {a: 1, b: 2, old: {x: 1}, resources: {limits: {cpu: 1000m}}}", after: "kind: A\nspec: {a: 1, b: 3, resources: {limits: {cpu: '1'}}}\nmetadata: {labels: {example.com/team: t}}",
			want: "metadata.labels.[example.com/team]: (none) → t\nspec.b: 2 → 3\nspec.old.x: 1 → (none)",
		},
		"list items by their keys": {
			before: "kind: A\nspec: {containers: [{name: a, image: '1', env: [{name: X}]}, {name: old}], ports: [{port: 53, protocol: TCP, node: 1}, {port: 53, protocol: UDP}], args: [a]}",
			after:  "kind: A\nspec: {containers: [{name: new}, {name: a, image: '2'}], ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP, node: 2}], args: [b]}",
			want:   "spec.args: `[\"a\"]` → `[\"b\"]`\nspec.containers[name=a].env[name=X]: `{\"name\":\"X\"}` → (none)\nspec.containers[name=a].image: 1 → 2\nspec.containers[name=new]: (none) → `{\"name\":\"new\"}`\nspec.containers[name=old]: `{\"name\":\"old\"}` → (none)\nspec.ports[port=53,protocol=TCP].node: 1 → 2",
		},
		"of another type": {
			before: "kind: A\nspec: {a: {b: 1}, c: [x]}", after: "kind: A\nspec: {a: b, c: {d: 1}}", want: "spec.a: `{\"b\":1}` → b\nspec.c: `[\"x\"]` → `{\"d\":1}`",
		},
		"a Secret": {
			before: "kind: Secret\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: secret}}\ndata: {a: eA==, b: eA==}\nstringData: {c: secret}", after: "kind: Secret\ndata: {a: eQ==}",
			want: "data.a: (sensitive value) → (sensitive value)\ndata.b: (sensitive value) → (none)\nmetadata.annotations.[kubectl.kubernetes.io/last-applied-configuration]: (sensitive value) → (none)\nstringData.c: (sensitive value) → (none)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(t, one.before)
			if got := texts(Diff(before, object(t, one.after))); got != one.want {
				t.Errorf("got\n%s\nwant\n%s", got, one.want)
			}
			sameObject(t, "the input", before, object(t, one.before))
		})
	}
	one := object(t, "kind: A\nspec: {a: 1}")
	if got := texts(Diff(nil, one)) + "; " + texts(Diff(one, nil)) + texts(Diff(nil, nil)); got != "spec.a: (none) → 1; spec.a: 1 → (none)" {
		t.Errorf("with no object: %s", got)
	}
}

func TestCheckPointer(t *testing.T) {
	for _, pointer := range []string{"", "/", "/spec/replicas", "/metadata/annotations/a~1b~0c", "/spec/containers/0", "//"} {
		if err := CheckPointer(pointer); err != nil {
			t.Errorf("%q: %v", pointer, err)
		}
	}
	refused(t, CheckPointer("spec.containers[0].image"), `"spec.containers[0].image" is not a JSON pointer`,
		`A JSON pointer (RFC 6901) begins with a slash, such as "/spec/replicas"; the empty one is the whole object. Write "/spec/containers/0/image".`)
	for _, pointer := range []string{"/a~b", "/a~", "/a~2"} {
		refused(t, CheckPointer(pointer), `"`+pointer+`" is not a JSON pointer`, `a "~" is followed by 0 or 1`, `Write it so, such as "/metadata/annotations/example.com~1note".`)
	}
}
