package release

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	helm "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// recordTime is what storing the outcome of an interrupted step may take, after the step's own time is up.
const recordTime = 20 * time.Second

// storage is Helm's storage of one release for the time of one operation. It reads the history once, at its start, and
// writes through. It is a driver of the Helm SDK.
type storage struct {
	ctx     context.Context
	cluster *cluster.Cluster
	ref     Ref
	marks   marks

	mutex   sync.Mutex
	records map[string]record
	// made is the Secret of the revision that this operation works on; the others it leaves as they are.
	made string
	// putOff keeps the records that Helm deletes, until prune or purge. pruned are their Secrets.
	putOff bool
	pruned []string
	// failure is the first error of a write: Helm only logs some of them.
	failure error
}

// marks are what berth writes on the Secret of a revision beside Helm's own labels.
type marks struct {
	owner   kube.Owner
	adopted bool
	digest  string
	source  string
	secrets []string
}

// largestSource bounds what of a Spec.Source is kept: all annotations of an object may take 256 KiB (a limit of the API).
const largestSource = 128 << 10

func (m marks) labels(revision int) map[string]string {
	labels := map[string]string{kube.MarkOwner: m.owner.Hash(), labelRevision: strconv.Itoa(revision)}
	if m.adopted {
		labels[labelAdopted] = "true"
	}
	return labels
}

func (m marks) annotate(annotations map[string]any) error {
	annotations[kube.MarkOwner], annotations[annotationDigest], annotations[annotationSource] = m.owner.String(), m.digest, nil
	if len(m.source) <= largestSource {
		annotations[annotationSource] = m.source
	}
	paths, err := json.Marshal(m.secrets)
	annotations[annotationSecrets] = string(paths)
	return err
}

// note is a revision that says in its chart's metadata, too, which of its values are secret: another tool that supersedes
// it writes its Secret anew, and without annotations.
func (m marks) note(release *helm.Release) (*helm.Release, error) {
	if len(m.secrets) == 0 || release.Chart == nil || release.Chart.Metadata == nil {
		return release, nil
	}
	paths, err := json.Marshal(m.secrets)
	if err != nil {
		return nil, err
	}
	noted, ch, metadata := *release, *release.Chart, *release.Chart.Metadata
	metadata.Annotations = maps.Clone(metadata.Annotations)
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	metadata.Annotations[annotationSecrets] = string(paths)
	noted.Chart, ch.Metadata = &ch, &metadata
	return &noted, nil
}

// mark writes berth's marks on the newest revision of a release without making a new one: it is adopted as it is.
func mark(ctx context.Context, c *cluster.Cluster, one record, m marks) error {
	annotations := map[string]any{}
	if err := m.annotate(annotations); err != nil {
		return err
	}
	metadata := map[string]any{"labels": m.labels(one.Version), "annotations": annotations}
	content := map[string]any{"metadata": metadata}
	if len(m.secrets) > 0 {
		noted, err := m.note(one.Release)
		if err != nil {
			return err
		}
		body, err := encode(noted)
		if err != nil {
			return err
		}
		// The content is written back as it was read, and over nothing that is newer.
		content["data"], metadata["resourceVersion"] = map[string]any{storageKey: body}, one.secret.GetResourceVersion()
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return err
	}
	_, err = c.MergePatch(ctx, cluster.Secrets, one.secret.GetNamespace(), one.secret.GetName(), patch, kube.FieldManager)
	if apierrors.IsConflict(err) {
		return somebodyElse(c, Ref{Namespace: one.Namespace, Name: one.Name}, err)
	}
	return err
}

// unmark takes berth's marks off every revision.
func unmark(ctx context.Context, c *cluster.Cluster, records []record) error {
	for _, one := range records {
		labels := map[string]any{kube.MarkOwner: nil, labelRevision: nil, labelAdopted: nil}
		annotations := map[string]any{}
		for _, key := range []string{kube.MarkOwner, annotationDigest, annotationSource, annotationSecrets, annotationActor, annotationRenewed} {
			annotations[key] = nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}})
		if err != nil {
			return err
		}
		if _, err := c.MergePatch(ctx, cluster.Secrets, one.secret.GetNamespace(), one.secret.GetName(), patch, kube.FieldManager); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

var _ driver.Driver = (*storage)(nil)

// history reads every revision of a release from the cluster, the newest first.
func history(ctx context.Context, c *cluster.Cluster, ref Ref) ([]record, error) {
	secrets, err := c.Select(ctx, cluster.Secrets, ref.Namespace, labelOwner+"="+ownerHelm+","+labelName+"="+ref.Name, "")
	if err != nil {
		return nil, err
	}
	records := make([]record, 0, len(secrets))
	for _, secret := range secrets {
		one, err := readRecord(secret)
		if err != nil {
			return nil, err
		}
		records = append(records, one)
	}
	newestFirst(records)
	return records, nil
}

// listed are the revisions of a release that are not superseded, the newest first, from the one list that all releases of
// a cluster share; none where there is no such release.
func listed(ctx context.Context, c *cluster.Cluster, ref Ref) ([]record, error) {
	secrets, err := c.SelectedIn(ctx, cluster.Secrets, ref.Namespace, currentRevisions)
	if err != nil {
		return nil, err
	}
	var records []record
	for _, secret := range secrets {
		if secret.GetLabels()[labelName] != ref.Name {
			continue
		}
		one, err := readRecord(secret)
		if err != nil {
			return nil, err
		}
		records = append(records, one)
	}
	newestFirst(records)
	return records, nil
}

// newest is listed for a release that should be there. One that the list lacks is asked for by name, before it counts as
// gone: every revision of it is superseded when an upgrade was cut short at the wrong moment.
func newest(ctx context.Context, c *cluster.Cluster, ref Ref) ([]record, error) {
	records, err := listed(ctx, c, ref)
	if err != nil || len(records) > 0 {
		return records, err
	}
	return history(ctx, c, ref)
}

func newStorage(ctx context.Context, c *cluster.Cluster, ref Ref, records []record, marks marks) *storage {
	s := &storage{ctx: ctx, cluster: c, ref: ref, marks: marks, records: map[string]record{}}
	for _, one := range records {
		s.records[secretName(one.Name, one.Version)] = one
	}
	return s
}

// Name is part of Helm's driver.
func (*storage) Name() string { return driver.SecretsDriverName }

// Get returns a revision.
func (s *storage) Get(key string) (*helm.Release, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one, found := s.records[key]
	if !found {
		return nil, driver.ErrReleaseNotFound
	}
	return one.Release, nil
}

// List returns the revisions that a filter lets through.
func (s *storage) List(filter func(*helm.Release) bool) ([]*helm.Release, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []*helm.Release
	for _, one := range s.records {
		if filter(one.Release) {
			found = append(found, one.Release)
		}
	}
	return found, nil
}

// Query returns the revisions with Helm's labels; of those only the status tells revisions of one release apart.
func (s *storage) Query(labels map[string]string) ([]*helm.Release, error) {
	found, _ := s.List(func(one *helm.Release) bool {
		status, asked := labels[labelStatus]
		return one.Name == labels[labelName] && (!asked || one.Info.Status.String() == status)
	})
	if len(found) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return found, nil
}

// Create stores a new revision.
func (s *storage) Create(key string, release *helm.Release) error {
	s.works(key)
	body, err := s.body(key, release)
	if err != nil {
		return s.fail(err)
	}
	secret := cluster.Secrets.New(s.ref.Namespace, key)
	secret.Object["type"] = storageType
	secret.Object["data"] = map[string]any{storageKey: body}
	labels := s.labels(key, release)
	labels["createdAt"] = strconv.FormatInt(time.Now().Unix(), 10)
	secret.SetLabels(labels)
	annotations, err := s.annotations(key, release)
	if err != nil {
		return s.fail(err)
	}
	for key, value := range annotations {
		if value == nil {
			delete(annotations, key)
		}
	}
	secret.Object["metadata"].(map[string]any)["annotations"] = annotations
	created, err := s.cluster.Create(s.ctx, cluster.Secrets, secret, kube.FieldManager)
	if apierrors.IsAlreadyExists(err) {
		return s.fail(somebodyElse(s.cluster, s.ref, err))
	}
	if err != nil {
		return s.fail(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.records[key] = record{Release: release, secret: created}
	return nil
}

// Update stores what became of a revision, also when the operation was interrupted in the meantime.
func (s *storage) Update(key string, release *helm.Release) error {
	body, err := s.body(key, release)
	if err != nil {
		return s.fail(err)
	}
	labels := map[string]any{"modifiedAt": strconv.FormatInt(time.Now().Unix(), 10)}
	for key, value := range s.labels(key, release) {
		labels[key] = value
	}
	annotations, err := s.annotations(key, release)
	if err != nil {
		return s.fail(err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": annotations},
		"data":     map[string]any{storageKey: body},
	})
	if err != nil {
		return s.fail(err)
	}
	ctx, cancel := s.lasting()
	defer cancel()
	updated, err := s.cluster.MergePatch(ctx, cluster.Secrets, s.ref.Namespace, key, patch, kube.FieldManager)
	if err != nil {
		return s.fail(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.records[key] = record{Release: release, secret: updated}
	return nil
}

// Delete removes a revision; one that is gone already counts as removed.
func (s *storage) Delete(key string) (*helm.Release, error) {
	s.mutex.Lock()
	one, found := s.records[key]
	s.mutex.Unlock()
	if !found {
		return nil, driver.ErrReleaseNotFound
	}
	if s.putOff {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.pruned = append(s.pruned, key)
		return one.Release, nil
	}
	if err := s.cluster.Delete(s.ctx, cluster.Secrets, s.ref.Namespace, key, one.secret.GetUID()); err != nil {
		return nil, s.fail(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.records, key)
	return one.Release, nil
}

// prune deletes the records that Helm wanted to have deleted.
func (s *storage) prune() error {
	s.putOff = false
	for _, key := range s.pruned {
		if _, err := s.Delete(key); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
	}
	return nil
}

// purge deletes all records, the newest last: it is the one that says what is going on.
func (s *storage) purge() error {
	s.putOff = false
	all := slices.Collect(maps.Values(s.records))
	newestFirst(all)
	for _, one := range slices.Backward(all) {
		if _, err := s.Delete(secretName(one.Name, one.Version)); err != nil {
			return err
		}
	}
	return nil
}

// body is what the Secret of a revision holds.
func (s *storage) body(key string, release *helm.Release) (string, error) {
	if s.writes(key) {
		noted, err := s.marks.note(release)
		if err != nil {
			return "", err
		}
		release = noted
	}
	return encode(release)
}

// labels are those of a revision: the ones it was given, Helm's own, and ours.
func (s *storage) labels(key string, release *helm.Release) map[string]string {
	labels := maps.Clone(release.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelOwner], labels[labelName] = ownerHelm, release.Name
	labels[labelStatus], labels[labelVer] = release.Info.Status.String(), strconv.Itoa(release.Version)
	if s.writes(key) {
		maps.Copy(labels, s.marks.labels(release.Version))
	}
	return labels
}

// annotations are those of a revision: ours. While the revision is being worked on they say by whom.
func (s *storage) annotations(key string, release *helm.Release) (map[string]any, error) {
	annotations := map[string]any{annotationActor: nil, annotationRenewed: nil}
	if release.Info.Status.IsPending() || release.Info.Status == helm.StatusUninstalling {
		annotations[annotationActor], annotations[annotationRenewed] = self(), time.Now().UTC().Format(time.RFC3339)
	}
	if !s.writes(key) {
		return annotations, nil
	}
	return annotations, s.marks.annotate(annotations)
}

// works says that this operation makes a revision its own.
func (s *storage) works(key string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.made = key
}

func (s *storage) writes(key string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.made == key && s.marks.digest != ""
}

// lasting is the operation's context, or, when that has ended, one in which its outcome can still be stored.
func (s *storage) lasting() (context.Context, context.CancelFunc) {
	if s.ctx.Err() == nil {
		return s.ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(s.ctx), recordTime)
}

func (s *storage) fail(err error) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	return err
}
