package kube

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// dice makes random objects and sets of their fields, of few names and values, so that they have much in common.
type dice struct{ *rand.Rand }

func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d dice) value(depth int) any {
	switch n := d.IntN(8); {
	case n < 3 && depth > 0:
		fields := map[string]any{}
		for range d.IntN(4) {
			fields[d.pick("data", "labels", "a", "b", "name", "x/y~z", "caBundle", "replicas")] = d.value(depth - 1)
		}
		return fields
	case n < 5 && depth > 0:
		items := []any{}
		for range d.IntN(4) {
			item := d.value(depth - 1)
			if d.IntN(3) > 0 {
				item = map[string]any{"name": d.pick("a", "b", "c"), "port": int64(d.IntN(3)), "v": item}
			}
			items = append(items, item)
		}
		return items
	case n == 5:
		return int64(d.IntN(3))
	case n == 6:
		return nil
	}
	return d.pick("a", "b", "")
}

func (d dice) object() map[string]any {
	return map[string]any{
		"kind": d.pick("A", "Secret", "APIService"), "spec": d.value(5), "data": d.value(1), "status": d.value(1),
		"metadata": map[string]any{"name": "a", "labels": d.value(1), "annotations": d.value(1), "creationTimestamp": createdAt},
	}
}

// set is a part of the fields of a value, as FieldsV1 has it, with a path now and then that leads nowhere.
func (d dice) set(of any) map[string]any {
	set := map[string]any{}
	if d.IntN(4) == 0 {
		set["."] = map[string]any{}
	}
	switch of := of.(type) {
	case map[string]any:
		for _, name := range sortedKeys(of) {
			if d.IntN(3) > 0 {
				set["f:"+name] = d.set(of[name])
			}
		}
	case []any:
		for i, item := range of {
			switch fields, _ := item.(map[string]any); {
			case d.IntN(3) == 0:
			case fields["port"] != nil:
				set[fmt.Sprintf(`k:{"name":%q,"port":%v}`, fields["name"], fields["port"])] = d.set(item)
			case fields["name"] == "a":
				set[`k:{"name":"a"}`] = d.set(item)
			case item == "a":
				set[`v:"a"`] = map[string]any{}
			default:
				set[fmt.Sprintf("i:%d", i)] = d.set(item)
			}
		}
	}
	if d.IntN(20) == 0 {
		set[d.pick("f:none", "i:9", "k:{}", `k:{"name":{}}`, "v:{", "", "f", "z:1")] = map[string]any{}
	}
	return set
}

// Whatever stands in managedFields, nothing panics, no input is changed, and what is extra is not so any more once it is
// wanted.
func FuzzFields(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, `{"f:spec":{".":{},"f:a":{"k:{\"name\":\"a\"}":{".":{}}}}}`, "/spec/a/0/x~1y~0z")
	}
	f.Add(uint64(0), `{"f:spec":3,"f:data":{"v:[":{},"k:3":{},"i:-1":{}}}`, "")
	f.Fuzz(func(t *testing.T, seed uint64, garbage, pointer string) {
		d := dice{rand.New(rand.NewPCG(seed, 0))}
		wanted, live := &unstructured.Unstructured{Object: d.object()}, &unstructured.Unstructured{Object: d.object()}
		if d.IntN(2) == 0 {
			// More alike: what differs was added.
			wanted.Object = live.DeepCopy().Object
			wanted.Object["spec"] = d.value(2)
		}
		var entries []any
		for range 1 + d.IntN(4) {
			entries = append(entries, map[string]any{
				"manager": d.pick("us", "kubectl-edit", "controller", "deploy-bot", "helm", "k9s"), "subresource": d.pick("", "", "", "scale", "status"),
				"operation": "Update", "fieldsType": "FieldsV1", "time": d.pick("", createdAt), "fieldsV1": d.set(live.Object),
			})
		}
		var set any
		if json.Unmarshal([]byte(garbage), &set) == nil {
			entries = append(entries, set, map[string]any{"manager": "kubectl-edit", "fieldsType": "FieldsV1", "fieldsV1": set})
		}
		live.Object["metadata"].(map[string]any)["managedFields"] = entries
		before := []*unstructured.Unstructured{wanted.DeepCopy(), live.DeepCopy()}
		for _, ignore := range [][]string{nil, {pointer, d.pick("/spec", "/spec/a", "/spec/0/v", "/data/name", "/spec/a/1", "/spec/b/0/name", "/metadata")}} {
			yielded := Yield(wanted, live, "us", ignore)
			extra := Extra(wanted, live, "us", ignore)
			with := WithExtra(wanted, live, extra)
			if ignore == nil {
				want(t, "extra when all of it is wanted", extraTexts(Extra(with, live, "us", ignore)), "")
			}
			if paths := Diff(yielded, with); len(paths) > 0 {
				want(t, "the way back", len(Diff(with, yielded)), len(paths))
			}
		}
		sameObject(t, "wanted", wanted, before[0])
		sameObject(t, "live", live, before[1])
		want(t, "an object and itself", texts(Diff(live, live)), "")
	})
}
