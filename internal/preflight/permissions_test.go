package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

var (
	createClasses = cluster.Permission{Verb: "create", Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	getClass      = cluster.Permission{Verb: "get", Group: "scheduling.k8s.io", Resource: "priorityclasses", Name: "batch-low"}
	createMaps    = cluster.Permission{Verb: "create", Resource: "configmaps", Namespace: "my-instance"}
	patchMaps     = cluster.Permission{Verb: "patch", Resource: "configmaps", Namespace: "my-instance"}
)

func TestPermissions_J11(t *testing.T) {
	c := newFake(t)
	asked := []cluster.Permission{createClasses, getClass, createMaps, patchMaps}
	expect(t, CheckPermissions(t.Context(), c, asked), "permissions", Pass, "the credential has all of the 4 permission(s)", "")

	c.lacks = []cluster.Permission{createClasses, patchMaps}
	check := CheckPermissions(t.Context(), c, asked)
	expect(t, check, "permissions", Fail,
		"the credential of shared may not:\n  create priorityclasses.scheduling.k8s.io\n  patch configmaps in namespace my-instance",
		"Have an administrator apply this and bind it to the credential's user:\n"+strings.TrimLeft(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: berth
rules:
- apiGroups:
  - scheduling.k8s.io
  resources:
  - priorityclasses
  verbs:
  - create
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: berth
  namespace: my-instance
rules:
- apiGroups:
  - ""
  resources:
  - configmaps
  verbs:
  - patch
`, "\n"))
}

func TestPermissionsUnknownWarn_X4(t *testing.T) {
	c := newFake(t)
	c.refuse["create selfsubjectaccessreviews"] = errors.New("the server is busy")
	expect(t, CheckPermissions(t.Context(), c, []cluster.Permission{createMaps}), "permissions", Warn,
		"unknown: could not find out what the credential of shared may do: the server is busy", "")
}

func TestRBACGroups_J11(t *testing.T) {
	core := func(verb, resource, name string) cluster.Permission {
		return cluster.Permission{Verb: verb, Resource: resource, Name: name}
	}
	status := cluster.Permission{Verb: "patch", Resource: "nodes", Subresource: "status"}
	// Verbs are joined per resource, resources with equal verbs are joined, a repetition counts once, and a name does
	// not limit create, which RBAC could not grant.
	equal(t, RBAC("berth", []cluster.Permission{
		core("patch", "secrets", "a"), core("get", "secrets", "a"), core("create", "secrets", "a"), core("get", "secrets", "a"),
		core("list", "nodes", ""), core("list", "pods", ""), status,
	}), strings.TrimLeft(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: berth
rules:
- apiGroups:
  - ""
  resources:
  - nodes
  - pods
  verbs:
  - list
- apiGroups:
  - ""
  resources:
  - nodes/status
  verbs:
  - patch
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - create
- apiGroups:
  - ""
  resourceNames:
  - a
  resources:
  - secrets
  verbs:
  - get
  - patch
`, "\n"))
}
