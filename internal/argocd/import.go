package argocd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// FindSecret finds the Secret of a cluster by what Argo CD calls it, in one namespace or ("") in all; nil when there is
// none. Of several the one with berth's own name for it is taken.
func FindSecret(ctx context.Context, management *cluster.Cluster, namespace, name string) (*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	var err error
	if namespace == "" {
		if all, err = management.Selected(ctx, cluster.Secrets, clusterSelector); apierrors.IsForbidden(err) {
			namespace = DefaultNamespace
		}
	}
	if namespace != "" {
		all, err = clusterSecrets(ctx, management, namespace)
	}
	if err != nil {
		return nil, err
	}
	var found *unstructured.Unstructured
	for _, secret := range all {
		if secretField(secret, "name") == name && (found == nil || secret.GetName() == SecretNameOf(name)) {
			found = secret
		}
	}
	return found, nil
}

// ServerOf is the server of a cluster's Secret.
func ServerOf(secret *unstructured.Unstructured) string { return secretField(secret, "server") }

// ReadArguments is a registration as a configuration has it that says no more than what is there, for an import (I100);
// nil when there is none by the name. It reads what `argocd cluster add` makes, too.
func ReadArguments(ctx context.Context, clusters Clusters, name string) (*Spec, error) {
	management := clusters.Management
	spec := Spec{Name: name, Namespace: DefaultNamespace, SecretName: SecretNameOf(name), KubeconfigNamespace: DefaultKubeconfigNamespace}
	secret, err := FindSecret(ctx, management, "", name)
	if err != nil {
		return nil, err
	}
	if secret != nil {
		if err := sameAsNoted(ctx, clusters, secret, name); err != nil {
			return nil, err
		}
		spec.readSecret(secret)
		if server := ServerOf(secret); clusters.Workload != nil && !cluster.SameServer(server, clusters.Workload.Server()) {
			spec.Server = server
		}
		if secret.GetAnnotations()[annotationCredential] == fromAccess && clusters.Workload != nil {
			spec.Access = accessOf(secret, clusters.Workload.Name())
		}
	} else if spec.InCluster, err = sameCluster(ctx, clusters); err != nil || !spec.InCluster {
		return nil, err
	}
	if spec.InCluster {
		// Nothing but the root says in which namespace Argo CD runs.
		roots, err := management.Ours(ctx, Applications)
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
		for _, one := range roots {
			if one.GetName() == RootName(name) {
				spec.Namespace = one.GetNamespace()
			}
		}
	}
	root, err := management.Live(ctx, Applications, spec.Namespace, RootName(name))
	if err != nil {
		return nil, err
	}
	if root == nil && spec.InCluster {
		return nil, nil
	}
	if root != nil {
		spec.AppOfApps = readRootArguments(root)
	}
	// The Secret with the kubeconfig is one of berth's, wherever it is.
	stored, err := management.Ours(ctx, cluster.Secrets)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for _, one := range stored {
		if one.GetName() == KubeconfigSecretName(name) && secretField(one, kubeconfigKey) != "" {
			spec.StoreKubeconfig, spec.KubeconfigNamespace = true, one.GetNamespace()
		}
	}
	if spec.InCluster {
		spec.StoreKubeconfig = true // the default, which means nothing here
	}
	return &spec, nil
}

// sameAsNoted refuses a Secret on which berth has noted another cluster than the key leads to.
func sameAsNoted(ctx context.Context, clusters Clusters, secret *unstructured.Unstructured, name string) error {
	noted := secret.GetAnnotations()[AnnotationClusterUID]
	if noted == "" || clusters.Workload == nil || clusters.silent() {
		return nil
	}
	uid, err := clusters.Workload.UID(ctx)
	if err != nil || uid == noted {
		return err
	}
	return &cluster.Problem{
		Attribute: "cluster", Summary: fmt.Sprintf("%q is not the cluster that is registered as %q", clusters.Workload.Name(), name),
		Detail: fmt.Sprintf("refusing: Secret %s/%s on %s was made for the cluster with UID %s, and clusters[%q] leads to the one with UID %s. Import it with the key of the first one.",
			secret.GetNamespace(), secret.GetName(), clusters.Management.Context(), noted, clusters.Workload.Name(), uid),
	}
}

func sameCluster(ctx context.Context, clusters Clusters) (bool, error) {
	if clusters.Workload == nil || clusters.Unreachable != nil {
		return false, clusters.Unreachable
	}
	management, err := clusters.Management.UID(ctx)
	if err != nil {
		return false, err
	}
	workload, err := clusters.Workload.UID(ctx)
	return management == workload, err
}

func (s *Spec) readSecret(secret *unstructured.Unstructured) {
	s.SecretName, s.Namespace = secret.GetName(), secret.GetNamespace()
	labels := secret.GetLabels()
	s.Org, s.Provider, s.Flavor, s.Region = labels[LabelOrg], labels[LabelProvider], labels[LabelFlavor], labels[LabelRegion]
	s.Labels, s.Annotations = others(labels), others(secret.GetAnnotations())
	s.Project = secretField(secret, "project")
	s.Namespaces = namespacesIn(secretField(secret, "namespaces"))
	if resources, err := strconv.ParseBool(secretField(secret, "clusterResources")); err == nil {
		s.ClusterResources = &resources
	}
	if shard, err := strconv.ParseInt(secretField(secret, "shard"), 10, 64); err == nil {
		s.Shard = &shard
	}
}

func readRootArguments(root *unstructured.Unstructured) *AppOfApps {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(root.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	return &AppOfApps{
		RepoURL: text("source", "repoURL"), Revision: text("source", "targetRevision"), Path: text("source", "path"), Project: text("project"),
		// One that another Application keeps in place was committed.
		Commit: slices.ContainsFunc(kube.Keepers(root), func(keeper string) bool { return strings.HasPrefix(keeper, "argocd/") }),
	}
}

// annotationArgoManaged stands with this value on what `argocd cluster add` makes. Source: Argo CD's
// common.AnnotationKeyManagedBy.
const (
	annotationArgoManaged = "managed-by"
	argoManages           = "argocd.argoproj.io"
)

// others are the labels or annotations that neither berth nor Argo CD nor Kubernetes put there; nil for none.
func others(values map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range values {
		domain, _, _ := strings.Cut(key, "/")
		if domain == "berth.dev" || domain == "users.berth.dev" || key == kube.LabelManagedBy || domain == "kubectl.kubernetes.io" || strings.HasSuffix(domain, "argoproj.io") {
			continue
		}
		if key == annotationArgoManaged && value == argoManages {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}
