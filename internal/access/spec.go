package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The defaults of an access (I42).
const (
	DefaultNamespace      = "kube-system"
	DefaultServiceAccount = "berth"
	DefaultClusterRole    = "cluster-admin"
)

const (
	// AnnotationTokenSecret on a ServiceAccount names the Secret of its current long-lived token; without it, whoever needs a
	// token mints one.
	AnnotationTokenSecret = "berth.dev/token-secret"
	// AnnotationServiceAccount on a Secret that minted tokens are bound to names their ServiceAccount.
	AnnotationServiceAccount = "berth.dev/service-account"
	// AnnotationExpires on such a Secret is when the token that is bound to it has expired for sure.
	AnnotationExpires = "berth.dev/expires"
	// AnnotationLent on such a Secret says that its token is for one run and nobody stores it.
	AnnotationLent = "berth.dev/lent"
)

// longestName is how long the name of most objects can be.
const longestName = 253

// Spec is an access as the configuration has it (I13, I42).
type Spec struct {
	Namespace, ServiceAccount string
	// ClusterRole is what the ServiceAccount is bound to.
	ClusterRole string
	// TokenSecret keeps a long-lived token; without it consumers mint expiring ones.
	TokenSecret bool
	// TokenVersion numbers the long-lived tokens.
	TokenVersion int64
	// UID is that of the ServiceAccount in the state, where it is known.
	UID types.UID
}

// Describe names the access as messages do.
func (s Spec) Describe() string {
	return kube.Name(cluster.ServiceAccounts.Kind, s.Namespace, s.ServiceAccount)
}

// SecretName is the name of the Secret with the current long-lived token; "" without one.
func (s Spec) SecretName() string {
	if !s.TokenSecret {
		return ""
	}
	name := s.ServiceAccount + "-token"
	if s.TokenVersion > 1 {
		name += "-" + strconv.FormatInt(s.TokenVersion, 10)
	}
	return name
}

// versionOf is the version of a long-lived token whose Secret has a name; 0 for a name that no version has.
func versionOf(serviceAccount, secret string) int64 {
	number, ok := strings.CutPrefix(secret, serviceAccount+"-token")
	if !ok {
		return 0
	}
	if number == "" {
		return 1
	}
	version, err := strconv.ParseInt(strings.TrimPrefix(number, "-"), 10, 64)
	if err != nil || version < 2 || number != "-"+strconv.FormatInt(version, 10) {
		return 0
	}
	return version
}

// BindingName is the name of the ClusterRoleBinding.
func (s Spec) BindingName() string {
	name := "berth-" + s.Namespace + "-" + s.ServiceAccount
	if len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:longestName-9] + "-" + hex.EncodeToString(sum[:4])
}

// DescribeBinding names the ClusterRoleBinding as messages do.
func (s Spec) DescribeBinding() string {
	return kube.Name(cluster.ClusterRoleBindings.Kind, "", s.BindingName())
}

// account is the ServiceAccount, which says by an annotation which Secret holds its token ("" for none).
func (s Spec) account(secret string) kube.Object {
	desired := cluster.ServiceAccounts.New(s.Namespace, s.ServiceAccount)
	if secret != "" {
		desired.SetAnnotations(map[string]string{AnnotationTokenSecret: secret})
	}
	return kube.Object{Kind: cluster.ServiceAccounts, Desired: desired}
}

func (s Spec) binding() kube.Object {
	desired := cluster.ClusterRoleBindings.New("", s.BindingName())
	desired.Object["roleRef"] = map[string]any{"apiGroup": cluster.ClusterRoles.Group, "kind": cluster.ClusterRoles.Kind, "name": s.ClusterRole}
	desired.Object["subjects"] = []any{map[string]any{"kind": cluster.ServiceAccounts.Kind, "namespace": s.Namespace, "name": s.ServiceAccount}}
	// RBAC refuses a changed roleRef: who may bind one role could otherwise hand out another.
	return kube.Object{Kind: cluster.ClusterRoleBindings, Desired: desired, Immutable: []string{"roleRef"}}
}

// secret is the Secret of a long-lived token. One with the token of another ServiceAccount (all of metadata that is set) can
// never become this one's.
func (s Spec) secret(name string) kube.Object {
	desired := cluster.Secrets.New(s.Namespace, name)
	desired.SetAnnotations(map[string]string{corev1.ServiceAccountNameKey: s.ServiceAccount})
	desired.Object["type"] = string(corev1.SecretTypeServiceAccountToken)
	return kube.Object{Kind: cluster.Secrets, Desired: desired, Immutable: []string{"type", "metadata"}}
}

func (s Spec) namespace() kube.Object {
	return kube.Object{Kind: cluster.Namespaces, Desired: cluster.Namespaces.New("", s.Namespace)}
}

// own are the objects of the access, in the order in which they are first made; its namespace, which is only looked after
// where it was missing, is not among them. marked says that berth has applied them: what was installed by hand has no
// annotation that names the token's Secret.
func (s Spec) own(marked bool) []kube.Object {
	secret := s.SecretName()
	if !marked {
		secret = ""
	}
	objects := []kube.Object{s.account(secret), s.binding()}
	if s.TokenSecret {
		objects = append(objects, s.secret(s.SecretName()))
	}
	return objects
}

// hold are the terms for one object. What the state holds is the access's by proof; what the configuration has only just
// asked for may meet something foreign by its name.
func (s *Spec) hold(terms kube.Terms, object kube.Object) kube.Terms {
	terms.Held, terms.UID = false, ""
	if s == nil {
		return terms
	}
	for _, held := range s.own(true) {
		if held.Describe() == object.Describe() {
			terms.Held = true
		}
	}
	if object.Kind == cluster.ServiceAccounts {
		terms.UID = s.UID
	}
	return terms
}

// isLongLived tells whether a Secret holds a long-lived token of a ServiceAccount.
func isLongLived(secret *unstructured.Unstructured, serviceAccount string) bool {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	return kind == string(corev1.SecretTypeServiceAccountToken) && secret.GetAnnotations()[corev1.ServiceAccountNameKey] == serviceAccount
}

var mintedSuffix = regexp.MustCompile(`^-minted-[0-9a-f]{8}$`)

// isMinted tells whether minted tokens of a ServiceAccount are bound to a Secret.
func isMinted(secret *unstructured.Unstructured, serviceAccount string) bool {
	suffix, ok := strings.CutPrefix(secret.GetName(), serviceAccount)
	return ok && mintedSuffix.MatchString(suffix) && secret.GetAnnotations()[AnnotationServiceAccount] == serviceAccount
}

// notHelms leaves out the storage of Helm releases, which is megabytes.
const notHelms = "type!=helm.sh/release.v1"

// secretsOf are the Secrets of a ServiceAccount's tokens that berth has marked, as they are now.
func secretsOf(ctx context.Context, c *cluster.Cluster, namespace, serviceAccount string) (longLived, minted []*unstructured.Unstructured, err error) {
	all, err := c.Select(ctx, cluster.Secrets, namespace, cluster.OursSelector, notHelms)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the Secrets with tokens of %s: %w", kube.Name(cluster.ServiceAccounts.Kind, namespace, serviceAccount), err)
	}
	for _, secret := range all {
		switch {
		case isLongLived(secret, serviceAccount):
			longLived = append(longLived, secret)
		case isMinted(secret, serviceAccount):
			minted = append(minted, secret)
		}
	}
	return longLived, minted, nil
}
