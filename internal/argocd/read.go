package argocd

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Condition is one condition in Kubernetes' words.
type Condition struct{ Status, Reason, Message string }

// The conditions of a registration (I10): Connected and Registered are its steps, Synced is what Argo CD says of the root
// Application.
const (
	ConditionConnected  = "Connected"
	ConditionRegistered = "Registered"
	ConditionSynced     = "Synced"
)

// Seen is a registration as it is.
type Seen struct {
	Version string
	Nodes   int
	// ArgoServer is the address by which Argo CD knows the cluster.
	ArgoServer string
	// Provider, Flavor and Region are what the Secret says.
	Provider, Flavor, Region string
	// TokenExpires is when the token that Argo CD has ends; zero for one that has no end.
	TokenExpires time.Time
	// RemovalStep is the step of a removal that was begun; "" for none.
	RemovalStep string
	// Marked says that berth has written its marks, by what the objects say.
	Marked     bool
	Conditions map[string]Condition
	// Drift maps object and field to "found → wanted".
	Drift map[string]string
}

// Read is a registration as it is; nil when nothing of it is there. marked says that berth has written its marks. A
// workload cluster that does not answer is told as a condition (I101).
func Read(ctx context.Context, clusters Clusters, spec Spec, terms Terms, marked bool) (*Seen, error) {
	secret, err := spec.liveSecret(ctx, clusters.Management)
	if err != nil {
		return nil, err
	}
	root, err := spec.liveRoot(ctx, clusters.Management)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := spec.liveKubeconfig(ctx, clusters.Management)
	if err != nil {
		return nil, err
	}
	// Of the management cluster itself whose root is still to be committed nothing is there that could be gone.
	awaited := spec.InCluster && spec.AppOfApps != nil && spec.AppOfApps.Commit
	step := ""
	if spec.InCluster {
		if step, err = spec.removalInside(ctx, clusters.Management, root); err != nil {
			return nil, err
		}
	}
	if secret == nil && root == nil && kubeconfig == nil && !awaited && step == "" {
		return nil, nil
	}
	// A runner forgets that they were when the provider is killed in an update.
	for _, one := range []*unstructured.Unstructured{secret, root} {
		marked = marked || kube.Inspect(one, terms.Owner).Standing == kube.Ours
	}
	seen := &Seen{Marked: marked, RemovalStep: step, ArgoServer: spec.argoServer(clusters.Workload), Conditions: map[string]Condition{}, Drift: map[string]string{}}
	if secret != nil {
		annotations, labels := secret.GetAnnotations(), secret.GetLabels()
		seen.RemovalStep = annotations[AnnotationRemovalStep]
		seen.Version = annotations[AnnotationVersion]
		seen.Nodes, _ = strconv.Atoi(annotations[AnnotationNodes])
		seen.Provider, seen.Flavor, seen.Region = labels[LabelProvider], labels[LabelFlavor], labels[LabelRegion]
		seen.TokenExpires = written(secret).token.Expires
		if server := secretField(secret, "server"); server != "" {
			seen.ArgoServer = server
		}
	}
	var now facts
	connected := Condition{Status: "True", Reason: "Reached", Message: "The API server answers, and Argo CD has a credential for it"}
	if clusters.Unreachable != nil {
		connected = Condition{Status: "False", Reason: "Unreachable", Message: reasonOf(clusters.Unreachable)}
	} else {
		if now, err = lookAtCluster(ctx, clusters.Workload); err != nil {
			return nil, err
		}
		seen.Version, seen.Nodes = now.version, now.nodes
	}
	if !spec.InCluster {
		if err := spec.readSecrets(ctx, clusters, terms, marked, secret, now, seen, &connected); err != nil {
			return nil, err
		}
	}
	seen.Conditions[ConditionConnected] = connected
	return seen, spec.readRoot(ctx, clusters, terms, marked, root, seen)
}

// removalInside is the step of a removal that was begun, for the management cluster itself, which has no Secret to note it on:
// it stands on the root, and when that has gone, on what the root had brought. That is all by which the registration is
// known then, and a destroy that stopped there has to find it.
func (s Spec) removalInside(ctx context.Context, management *cluster.Cluster, root *unstructured.Unstructured) (string, error) {
	if root != nil {
		return root.GetAnnotations()[AnnotationRemovalStep], nil
	}
	all, _, err := listApplications(ctx, fromSnapshot(management), s.Namespace)
	if apierrors.IsForbidden(err) {
		return "", nil // whoever may not list them has not begun it
	}
	if err != nil {
		return "", err
	}
	step := ""
	for _, one := range belonging(s.Name, s.Namespace, all, nil).members {
		annotations := one.Live.GetAnnotations()
		if noted := annotations[AnnotationRemovalStep]; noted != "" {
			return noted, nil
		}
		if annotations[AnnotationRemoval] == s.Name {
			step = StepRoot // killed before the next one was noted
		}
	}
	return step, nil
}

// readSecrets compares Argo CD's Secret and the kubeconfig with what they should be.
func (s Spec) readSecrets(ctx context.Context, clusters Clusters, terms Terms, marked bool, secret *unstructured.Unstructured, now facts, seen *Seen, connected *Condition) error {
	cred, known, err := s.wanted(ctx, clusters, secret)
	if err != nil {
		// What the entry has become is said when something is to be written with it; what Argo CD has may well go on.
		if secret == nil {
			seen.Drift[kube.Name(cluster.Secrets.Kind, s.Namespace, s.SecretName)] = "missing → present"
			return nil
		}
		cred, known = written(secret), true
	}
	if cred.refused != nil {
		*connected = Condition{Status: "False", Reason: "CredentialRefused", Message: reasonOf(cred.refused)}
	}
	if cred.stale != "" {
		seen.Drift[kube.Name(cluster.Secrets.Kind, s.Namespace, s.SecretName)+" credential"] = cred.stale + " → a new one"
	}
	if !known {
		if secret == nil {
			seen.Drift[kube.Name(cluster.Secrets.Kind, s.Namespace, s.SecretName)] = "missing → present"
			return nil
		}
		// The rest is compared with the credential that is there.
		have := written(secret)
		cred.config, cred.source, cred.token = have.config, have.source, have.token
	}
	server := s.argoServer(clusters.Workload)
	object, err := s.secretObject(server, cred, now, secret)
	if err != nil {
		return err
	}
	if clusters.Unreachable != nil && secret != nil {
		kube.SetAnnotation(object.Desired, AnnotationClusterUID, secret.GetAnnotations()[AnnotationClusterUID])
	}
	objects := []kube.Object{unwritten(object, marked)}
	if s.storesKubeconfig() && (clusters.Unreachable == nil || secret != nil) {
		if config, err := s.kubeconfigObject(server, cred); err == nil {
			objects = append(objects, config)
		}
	}
	drift, err := kube.Drift(ctx, clusters.Management, terms.Owner, objects, marked)
	maps.Copy(seen.Drift, drift)
	if err != nil || !marked || secret == nil {
		return err
	}
	superseded, err := s.superseded(ctx, clusters, terms.Owner, written(secret).token.SecretName)
	for _, one := range superseded {
		seen.Drift[one] = "superseded → revoked"
	}
	return err
}

// readRoot compares the root Application with what it should be, and tells what Argo CD says of it.
func (s Spec) readRoot(ctx context.Context, clusters Clusters, terms Terms, marked bool, root *unstructured.Unstructured, seen *Seen) error {
	name := kube.Name(Applications.Kind, s.Namespace, RootName(s.Name))
	switch {
	case s.AppOfApps == nil:
		seen.Conditions[ConditionRegistered] = Condition{Status: "True", Reason: "SecretOnly", Message: "Argo CD knows the cluster; it has no app-of-apps"}
		return nil
	case root == nil && s.AppOfApps.Commit:
		seen.Conditions[ConditionRegistered] = Condition{Status: "False", Reason: "AwaitingCommit", Message: fmt.Sprintf("%s does not exist yet: commit gitops_files to %s", name, s.AppOfApps.RepoURL)}
		return nil
	case root == nil:
		seen.Conditions[ConditionRegistered] = Condition{Status: "False", Reason: "Missing", Message: name + " does not exist"}
	default:
		seen.Conditions[ConditionRegistered] = Condition{Status: "True", Reason: "Applied", Message: name + " is there"}
		seen.Conditions[ConditionSynced] = rootCondition(root)
	}
	if s.AppOfApps.Commit {
		return nil
	}
	drift, err := kube.Drift(ctx, clusters.Management, terms.Owner, []kube.Object{s.rootObject()}, marked)
	maps.Copy(seen.Drift, drift)
	return err
}
