package argocd

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// kubeconfigKey is the key of the Secret that holds the kubeconfig (I17).
const kubeconfigKey = "kubeconfig"

// kubeconfigRef names the Secret with the kubeconfig, as the output kubeconfig_secret does; "" where none is stored.
func (s Spec) kubeconfigRef() string {
	if !s.storesKubeconfig() {
		return ""
	}
	return s.KubeconfigNamespace + "/" + KubeconfigSecretName(s.Name)
}

func (s Spec) storesKubeconfig() bool { return s.StoreKubeconfig && !s.InCluster }

// kubeconfigObject is the Secret with a minimised kubeconfig (I104): of the address that Argo CD uses, which what runs beside it
// reaches too, with its credential.
func (s Spec) kubeconfigObject(server string, cred credential) (kube.Object, error) {
	stored, ok := cred.config.stored(server)
	if !ok {
		return kube.Object{}, &cluster.Problem{
			Attribute: "store_kubeconfig", Summary: fmt.Sprintf("There is no kubeconfig of %q to store", s.Name),
			Detail: "refusing: with the credential that Argo CD has for it only Argo CD itself can sign in (awsAuthConfig, execProviderConfig or a password). Set store_kubeconfig = false, or give it a token with a berth_cluster_access.",
		}
	}
	content, err := stored.Kubeconfig(s.Name)
	if err != nil {
		return kube.Object{}, err
	}
	object := cluster.Secrets.New(s.KubeconfigNamespace, KubeconfigSecretName(s.Name))
	object.Object["data"] = map[string]any{kubeconfigKey: base64.StdEncoding.EncodeToString(content)}
	return kube.Object{Kind: cluster.Secrets, Desired: object}, nil
}

// kubeconfigNamespace is the namespace of the kubeconfigs, which all registrations share.
func (s Spec) kubeconfigNamespace() kube.Object {
	return kube.Object{Kind: cluster.Namespaces, Desired: cluster.Namespaces.New("", s.KubeconfigNamespace)}
}

func (s Spec) sharing(owner kube.Owner) kube.Sharing {
	return kube.Sharing{User: owner, Name: s.Name, Decide: kube.Untouched}
}

// ensureKubeconfigNamespace makes sure that the namespace is there. One that somebody else made is used as it is.
func (s Spec) ensureKubeconfigNamespace(ctx context.Context, management *cluster.Cluster, owner kube.Owner) error {
	live, err := management.Fetch(ctx, cluster.Namespaces, "", s.KubeconfigNamespace)
	if err != nil || live != nil && !kube.IsShared(live) && live.GetDeletionTimestamp() == nil {
		return err
	}
	_, err = kube.Share(ctx, management, s.kubeconfigNamespace(), s.sharing(owner))
	return err
}

// leaveKubeconfigNamespace takes the registration's use off a namespace; the last one deletes it, where nothing else is
// in it.
func leaveKubeconfigNamespace(ctx context.Context, management *cluster.Cluster, namespace string, owner kube.Owner) error {
	live, err := management.Fetch(ctx, cluster.Namespaces, "", namespace)
	if err != nil || !kube.IsUser(live, owner) {
		return err
	}
	_, err = kube.Unshare(ctx, management, cluster.Namespaces, "", namespace, owner, func(ctx context.Context) (string, error) {
		left, err := kube.Leftovers(ctx, management, namespace, kube.Terms{Owner: owner})
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d object(s) are in it", len(left)), nil
	})
	return err
}

// dropKubeconfig removes the Secret with the kubeconfig from a namespace, where it is ours.
func (s Spec) dropKubeconfig(ctx context.Context, management *cluster.Cluster, terms Terms, retain bool) error {
	if _, err := kube.Remove(ctx, management, cluster.Secrets, s.KubeconfigNamespace, KubeconfigSecretName(s.Name), terms, retain); err != nil {
		return err
	}
	return leaveKubeconfigNamespace(ctx, management, s.KubeconfigNamespace, terms.Owner)
}

// liveKubeconfig is the Secret with the kubeconfig; nil when there is none, or none is stored.
func (s Spec) liveKubeconfig(ctx context.Context, management *cluster.Cluster) (*unstructured.Unstructured, error) {
	if !s.storesKubeconfig() {
		return nil, nil
	}
	return management.Live(ctx, cluster.Secrets, s.KubeconfigNamespace, KubeconfigSecretName(s.Name))
}
