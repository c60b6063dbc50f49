// Package release keeps Helm releases: it plans them object by object, installs and upgrades them through the Helm SDK,
// goes on from whatever a killed process left, finds what drifted and repairs just that, and takes them away in order.
package release

import (
	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Ref names a release on a cluster.
type Ref struct{ Namespace, Name string }

// String is how messages name the release.
func (r Ref) String() string { return "release " + r.Namespace + "/" + r.Name }

// CRDPolicy is what happens to the CRDs in a chart's crds/ folder.
type CRDPolicy string

// The values of CRDPolicy.
const (
	// CRDsUpgrade applies them before everything else, at install and at upgrade, and waits until they are Established.
	CRDsUpgrade CRDPolicy = "upgrade"
	// CRDsInstall creates those that are missing and leaves the others, as Helm does.
	CRDsInstall CRDPolicy = "install"
	// CRDsSkip leaves them to somebody else.
	CRDsSkip CRDPolicy = "skip"
)

// ExtraFields is what happens to fields that somebody added by hand to an object of the release.
type ExtraFields string

// The values of ExtraFields.
const (
	ExtraWarn   ExtraFields = "warn"
	ExtraIgnore ExtraFields = "ignore"
	ExtraRemove ExtraFields = "remove"
)

// Ignore names fields whose drift does not count.
type Ignore struct {
	// Kind, Namespace and Name select the objects; an empty one matches all.
	Kind, Namespace, Name string
	// Paths are JSON pointers (RFC 6901), each with all that is below it; none means the whole object.
	Paths []string
}

// Spec is what a release shall be.
type Spec struct {
	Ref
	// CreateNamespace creates the namespace when it is missing, with berth's marks.
	CreateNamespace bool
	// Chart is the chart, loaded.
	Chart chart.Chart
	// Values are the user's values, merged, with what is secret in them.
	Values map[string]any
	// Secrets are the paths in Values (in the notation of Helm's --set) whose values never appear in a message or a digest.
	Secrets []string
	// Wait waits until every object is ready by the rules of its kind, Jobs until they are complete.
	Wait bool
	// Source is what the caller wants to have back from Seen, such as where the chart came from. It is kept on the cluster,
	// so nothing in it may be secret.
	Source string
	// KeepHistory is how many revisions the cluster keeps, the current one included.
	KeepHistory int
	Watch
}

// Watch says what of a release's objects is looked at for drift.
type Watch struct {
	// CRDs is what happens to the CRDs in the chart's crds/ folder; only with CRDsUpgrade are they looked at.
	CRDs        CRDPolicy
	IgnoreDrift []Ignore
	ExtraFields ExtraFields
	// Settled is what earlier looks found out; see Seen.
	Settled map[string]string
}

// Verdict is what an apply will do.
type Verdict int

const (
	// Install: there is no such release.
	Install Verdict = iota
	// Resume: an install or upgrade of ours was interrupted or failed, and is begun again.
	Resume
	// Upgrade: chart or values change, so there will be a new revision.
	Upgrade
	// Repair: chart and values are as they shall be; only what drifted is put right, without a new revision.
	Repair
)

// Outlook is what a plan says of a release.
type Outlook struct {
	Verdict Verdict
	// Adopts is set where the release, or objects of it, are not ours yet.
	Adopts bool
	// Objects maps Kind/namespace/name of every object (Kind/name of one without a namespace) to the digest of its
	// manifest; "" where only the apply will tell, because the chart renders it differently each time.
	Objects map[string]string
	// Incomplete is set where the release has objects of kinds that the cluster does not have yet: what Objects and Changes
	// say of the others is then not all.
	Incomplete bool
	// Changes maps object and field to "before → after", with secrets masked; nil at Install.
	Changes map[string]string
	// AppVersion is the chart's.
	AppVersion string
	// Warnings are what the user should know before the apply.
	Warnings []Warning
}

// Warning is a diagnostic that stops nothing.
type Warning struct{ Summary, Detail string }

// Seen is a release as it is on the cluster.
type Seen struct {
	Revision int
	// Status is Helm's word for the newest revision, such as "deployed" or "failed".
	Status                              string
	ChartName, ChartVersion, AppVersion string
	// ChartDigest is that of the chart berth installed; "" when another tool wrote the revision.
	ChartDigest string
	// Source is that of the Spec by which berth wrote the newest revision; "" when another tool wrote it.
	Source string
	// Values are the user's values of the newest revision, without what is secret where berth wrote it.
	Values map[string]any
	// Objects is as in Outlook.
	Objects map[string]string
	// Drift maps object and field to "found → wanted", with secrets masked.
	Drift map[string]string
	// Ready is how far the objects are: status, reason and message of the condition Ready.
	Ready Condition
	// Warnings are fields that somebody added by hand.
	Warnings []Warning
	// Settled maps objects to a digest of the differences that the server has said are none: asking it again is spared.
	Settled map[string]string
}

// Condition is one of Kubernetes' conditions.
type Condition struct{ Status, Reason, Message string }

// Removal says how a release is taken away.
type Removal struct {
	Terms kube.Terms
	// Retain takes berth's marks off and leaves everything else.
	Retain bool
	// Force deletes a namespace that berth created although foreign objects are left in it.
	Force bool
	// KeepNamespace leaves the namespace and its marks alone: it is another part's of the same resource.
	KeepNamespace bool
}
