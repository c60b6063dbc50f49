package kube

import (
	"encoding/base64"
	"slices"
	"strings"
)

// managers is the table of field managers by their names, which the API server takes from the client's fieldManager or,
// where it has none, from its user agent up to the slash. Names are compared without regard to case.
var managers = struct{ controllers, people []string }{
	// controllers are words in the names of what keeps a field in place by itself.
	controllers: []string{
		"controller", "operator", "autoscaler", "scheduler", "injector", "manager", "webhook", "flagger", "rollouts", "keda",
		"vpa", "istiod", "linkerd", "kubelet", "kube-proxy", "kueue", "jobset",
	},
	// people are the beginnings of the names of what a person or a pipeline works with: command lines, consoles, and
	// HTTP libraries as they call themselves.
	people: []string{
		"kubectl", "helm", "k9s", "lens", "node-fetch", "mozilla", "curl", "unknown", "python", "openapi-generator", "okhttp",
		"go-http-client", "terraform",
	},
}

// beforeFirstApply is what the API server calls whoever wrote an object before fields had managers.
const beforeFirstApply = "before-first-apply"

// manager is one entry of metadata.managedFields: who set fields, and how that counts.
type manager struct {
	name string
	// ours is the manager under which we write.
	ours bool
	// controller and person are what the table says of the name; a name that it does not know is neither.
	controller, person bool
	// scale is set where the fields were written through the scale subresource.
	scale bool
	// adds is set where a field that we do not want counts as added by hand; see Extra.
	adds bool
	// created is set where the entry is as old as the object.
	created bool
}

// managerOf reads an entry of metadata.managedFields; nil when its fields do not count: those of the status, and those
// in another format than FieldsV1, the only one that there is.
func managerOf(entry map[string]any, ours, creation string) *manager {
	text := func(key string) string {
		value, _ := entry[key].(string)
		return value
	}
	if text("subresource") == "status" || text("fieldsType") != "FieldsV1" {
		return nil
	}
	name := strings.ToLower(text("manager"))
	m := &manager{name: text("manager"), ours: text("manager") == ours, scale: text("subresource") == "scale"}
	// A kubectl plugin is a person's, whatever words are in its name.
	m.controller = !strings.HasPrefix(name, "kubectl") && slices.ContainsFunc(managers.controllers, func(word string) bool { return strings.Contains(name, word) })
	m.person = !m.controller && slices.ContainsFunc(managers.people, func(begin string) bool { return strings.HasPrefix(name, begin) })
	m.created = !m.ours && text("operation") == "Update" && text("time") == creation
	m.adds = !m.ours && !m.controller && !m.scale && !strings.Contains(name, "helm") && m.name != beforeFirstApply
	return m
}

// caBundles are the fields that hold the certificate authority of a webhook or of an aggregated API, by kind, without
// the items of lists: whoever made the certificate puts it there, after the object was applied.
var caBundles = map[string]string{
	"MutatingWebhookConfiguration":   "webhooks.clientConfig.caBundle",
	"ValidatingWebhookConfiguration": "webhooks.clientConfig.caBundle",
	"CustomResourceDefinition":       "spec.conversion.webhook.clientConfig.caBundle",
	"APIService":                     "spec.caBundle",
}

// shortestCertificate is less than any certificate takes, in bytes of PEM: one with an Ed25519 key, names of one letter
// and no extension has about 290. What is shorter, such as the customary "Cg==", only holds the place.
const shortestCertificate = 256

func placeholder(caBundle any) bool {
	text, ok := caBundle.(string)
	return (ok || caBundle == nil) && base64.StdEncoding.DecodedLen(len(text)) < shortestCertificate
}

// taken tells whether a field that we want as `wanted` was rightly taken by another manager. That is so when
//
//   - the manager is a controller by its name (see managers); or
//   - it wrote the field through the scale subresource and is no tool of a person: an autoscaler may be called anything; or
//   - the field is a CA bundle (see caBundles), and it is no tool of a person either, or what we want there only holds
//     the place.
//
// What anybody else changed in a field that we set is drift: a person's or a pipeline's tool, and a manager that is not
// known. So is a field that nobody owns, because somebody removed it, and one that we own too: nobody took it from us,
// the two agree on its value.
func (f *fields) taken(field *node, wanted any) bool {
	if slices.ContainsFunc(field.owners, func(m *manager) bool { return m.ours }) {
		return false
	}
	return slices.ContainsFunc(field.owners, func(m *manager) bool {
		return m.controller || m.scale && !m.person ||
			field.fieldNames() == caBundles[f.kind] && (!m.person || placeholder(wanted))
	})
}
