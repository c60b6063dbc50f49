package argocd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// claims are what a ServiceAccount's token says of itself. Source: the private claims of Kubernetes' token issuer.
type claims struct {
	Subject    string `json:"sub"`
	Kubernetes struct {
		ServiceAccount struct {
			UID types.UID `json:"uid"`
		} `json:"serviceaccount"`
		Secret struct {
			UID types.UID `json:"uid"`
		} `json:"secret"`
	} `json:"kubernetes.io"`
}

// claimsOf reads a token, without asking whether it is a genuine one; ok is false for one that is no JWT.
func claimsOf(token string) (read claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &read) != nil {
		return claims{}, false
	}
	return read, true
}

// issuedFor tells whether a minted token is one of a ServiceAccount and bound to a Secret: an API server refuses it once
// either was deleted, whatever has their names since. What can't be read passes.
func issuedFor(token string, account, secret types.UID) bool {
	said, ok := claimsOf(token)
	if !ok {
		return true
	}
	return (said.Kubernetes.ServiceAccount.UID == "" || said.Kubernetes.ServiceAccount.UID == account) &&
		(said.Kubernetes.Secret.UID == "" || said.Kubernetes.Secret.UID == secret)
}

// accessOf is the access whose token a Secret holds: the token itself names its ServiceAccount.
func accessOf(secret *unstructured.Unstructured, key string) *access.Ref {
	config, _ := configOf(secret)
	said, _ := claimsOf(config.BearerToken)
	account, is := strings.CutPrefix(said.Subject, "system:serviceaccount:")
	namespace, name, both := strings.Cut(account, ":")
	if !is || !both {
		return nil
	}
	return &access.Ref{Cluster: key, Namespace: namespace, Name: name}
}

// superseded are the Secrets on the workload cluster with tokens that the registration still holds beside the one that
// Argo CD has: an apply was interrupted after it had handed over the new one and before it could take back the old one.
func (s Spec) superseded(ctx context.Context, clusters Clusters, owner kube.Owner, keep string) ([]string, error) {
	if s.Access == nil || clusters.silent() {
		return nil, nil
	}
	all, err := clusters.Workload.Ours(ctx, cluster.Secrets)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	var found []string
	for _, secret := range all {
		if secret.GetNamespace() != s.Access.Namespace || secret.GetName() == keep || secret.GetDeletionTimestamp() != nil {
			continue
		}
		annotations := secret.GetAnnotations()
		maker, marked := kube.ParseOwner(secret)
		minted := marked && maker == owner && annotations[access.AnnotationServiceAccount] == s.Access.Name && annotations[access.AnnotationLent] == ""
		_, used := secret.GetLabels()[kube.UserPrefix+owner.Hash()]
		if minted || used && annotations[corev1.ServiceAccountNameKey] == s.Access.Name {
			found = append(found, kube.Describe(secret))
		}
	}
	return found, err
}

// Outdated tells whether Argo CD has another token than the registration's access hands out, or will once the plan being
// made is applied. What a refresh has seen before that plan does not know it yet.
func Outdated(ctx context.Context, clusters Clusters, spec Spec) (bool, error) {
	if spec.Access == nil || spec.InCluster || clusters.Workload == nil || clusters.silent() {
		return false, nil
	}
	handout, err := access.Look(ctx, clusters.Workload, *spec.Access)
	if err != nil || handout.Pending {
		return handout.Pending, err
	}
	live, err := spec.liveSecret(ctx, clusters.Management)
	if err != nil || live == nil {
		return false, err
	}
	cred, known, err := spec.wanted(ctx, clusters, live)
	have, _ := configOf(live)
	return err == nil && (!known || !reflect.DeepEqual(have, cred.config)), err
}
