package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	helm "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Helm keeps every revision of a release in a Secret: of this type, with these labels, and the revision in the key
// "release" as JSON, gzipped, in base64 (below the Secret's own base64). Source: Helm's storage driver for Secrets.
const (
	storageType = "helm.sh/release.v1"
	storageKey  = "release"
	labelOwner  = "owner"
	labelName   = "name"
	labelStatus = "status"
	labelVer    = "version"
	ownerHelm   = "helm"
)

// Our own marks on the Secret of a revision.
const (
	// labelRevision is the number of the revision that berth wrote: Helm carries labels over to the revisions that it
	// writes itself, where the number is then another one.
	labelRevision = "berth.dev/revision"
	// labelAdopted stands on a release that berth did not create, so that it is never uninstalled.
	labelAdopted = "berth.dev/adopted"
	// annotationDigest is the digest of the chart that berth installed.
	annotationDigest = "berth.dev/chart-digest"
	// annotationSource is Spec.Source.
	annotationSource = "berth.dev/source"
	// annotationSecrets are the paths of values that are secret, as JSON. It stands on the Secret and in the metadata of
	// the chart within it.
	annotationSecrets = "berth.dev/secret-values"
	// annotationActor and annotationRenewed stand on a revision while it is being worked on: who does, and when they were
	// last known to be alive.
	annotationActor   = "berth.dev/actor"
	annotationRenewed = "berth.dev/renewed"
)

// currentRevisions selects the Secrets of Helm that say how things are, and not how they were.
const currentRevisions = labelOwner + "=" + ownerHelm + "," + labelStatus + " notin (superseded)"

// largestRecord bounds what a record may unpack to: etcd holds no object above 1.5 MiB by default, and JSON of charts
// gzips by a factor of ten or so.
const largestRecord = 256 << 20

// record is one revision, and the Secret that it is in.
type record struct {
	*helm.Release
	secret *unstructured.Unstructured
}

// readRecord decodes the Secret of a revision. The error names the Secret, and nothing of its content.
func readRecord(secret *unstructured.Unstructured) (record, error) {
	name := kube.Name("Secret", secret.GetNamespace(), secret.GetName())
	data, _, _ := unstructured.NestedString(secret.Object, "data", storageKey)
	release, err := decode(data)
	if err != nil {
		return record{}, &cluster.Problem{
			Summary: fmt.Sprintf("%s holds no release of Helm", name),
			Detail:  fmt.Sprintf("It carries Helm's labels, but its content %s. If `helm history` cannot read it either, delete the Secret.", err),
			Err:     err,
		}
	}
	release.Labels = secret.GetLabels()
	return record{Release: release, secret: secret}, nil
}

// decode reads what a record's Secret holds, under the Secret's base64. The error completes a sentence about it.
func decode(data string) (*helm.Release, error) {
	outer, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errors.New("is not base64")
	}
	packed, err := base64.StdEncoding.DecodeString(string(outer))
	if err != nil {
		return nil, errors.New("is not base64 inside")
	}
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, errors.New("is not gzip")
		}
		if packed, err = io.ReadAll(io.LimitReader(reader, largestRecord+1)); err != nil || len(packed) > largestRecord {
			return nil, errors.New("is broken gzip, or too large")
		}
	}
	var release helm.Release
	if err := json.Unmarshal(packed, &release); err != nil {
		return nil, errors.New("is not the JSON of a release")
	}
	if release.Name == "" || release.Info == nil || release.Version < 1 {
		return nil, errors.New("lacks the release's name, state or revision")
	}
	return &release, nil
}

// encode is the other way round.
func encode(release *helm.Release) (string, error) {
	plain, err := json.Marshal(release)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := writer.Write(plain); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	inner := base64.StdEncoding.EncodeToString(packed.Bytes())
	return base64.StdEncoding.EncodeToString([]byte(inner)), nil
}

// secretName is the name that Helm gives the Secret of a revision.
func secretName(name string, revision int) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision)
}

// digest is that of the chart, where berth wrote this revision.
func (r record) digest() string {
	if r.secret.GetLabels()[labelRevision] != strconv.Itoa(r.Version) {
		return ""
	}
	return r.secret.GetAnnotations()[annotationDigest]
}

// source is Spec.Source, where berth wrote this revision.
func (r record) source() string {
	if r.digest() == "" {
		return ""
	}
	return r.secret.GetAnnotations()[annotationSource]
}

// secrets are the paths of the values that are secret; they hold for what another tool made of our revision, too. Where it
// wrote the Secret anew, they are in the chart's metadata alone.
func (r record) secrets() []string {
	text, found := r.secret.GetAnnotations()[annotationSecrets]
	if !found && r.Chart != nil && r.Chart.Metadata != nil {
		text = r.Chart.Metadata.Annotations[annotationSecrets]
	}
	var paths []string
	// What is not a list of paths names none.
	_ = json.Unmarshal([]byte(text), &paths)
	return paths
}

// crds are those in the crds/ folders of the chart. One that cannot be read was refused when it was to be applied.
func (r record) crds() []*unstructured.Unstructured {
	if r.Chart == nil {
		return nil
	}
	crds, err := chartCRDs(r.Chart)
	if err != nil {
		return nil
	}
	return crds
}

// adopted tells whether berth found the release rather than creating it.
func (r record) adopted() bool { return r.secret.GetLabels()[labelAdopted] == "true" }

// pending tells whether somebody is, or was when they were killed, at work on the revision.
func (r record) pending() bool {
	return r.Info.Status.IsPending() || r.Info.Status == helm.StatusUninstalling
}

// writer names the field manager that wrote the content of the revision last, and when.
func (r record) writer() (manager string, at time.Time) {
	for _, entry := range r.secret.GetManagedFields() {
		if entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:`+storageKey+`"`) {
			continue
		}
		if entry.Time != nil && !entry.Time.Time.Before(at) {
			manager, at = entry.Manager, entry.Time.Time
		}
	}
	if manager == "" {
		manager, at = "somebody", r.Info.LastDeployed.Time
	}
	return manager, at
}

// newestFirst sorts the records of one release.
func newestFirst(records []record) {
	slices.SortFunc(records, func(a, b record) int { return b.Version - a.Version })
}
