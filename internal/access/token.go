package access

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Handout is what an access hands out now.
type Handout struct {
	// Exists tells whether the ServiceAccount is there, and AccountUID which one it is.
	Exists     bool
	AccountUID types.UID
	// Pending is set while the plan being made is about to change what is handed out: what it will be is known only at the
	// apply.
	Pending bool
	// LongLived tells whether it is a token that does not expire; otherwise who needs one mints it.
	LongLived bool
	// SecretName and SecretUID are those of the Secret with the long-lived token. There is no UID while it is missing.
	SecretName string
	SecretUID  types.UID
	// Token is the long-lived token, once it is issued.
	Token string
}

// String leaves the token out, whatever prints a Handout.
func (h Handout) String() string {
	return fmt.Sprintf("exists %t, pending %t, long-lived %t, secret %s (%s)", h.Exists, h.Pending, h.LongLived, h.SecretName, h.SecretUID)
}

// GoString is String for the verb %#v.
func (h Handout) GoString() string { return h.String() }

// Token is a token of a ServiceAccount, and the Secret with whose deletion it is revoked.
type Token struct {
	Value      string
	SecretName string
	SecretUID  types.UID
	// Issued and Expires are by the API server's clock; a long-lived token has no Expires.
	Issued, Expires time.Time
}

// String leaves the token out, whatever prints it.
func (t Token) String() string { return "token of Secret " + t.SecretName }

// GoString is String for the verb %#v.
func (t Token) GoString() string { return t.String() }

// RenewAt is when a token has to be replaced: the beginning of the last third of its life.
func RenewAt(issued, expires time.Time) time.Time {
	return issued.Add(expires.Sub(issued) / 3 * 2)
}

func handoutOf(account, secret *unstructured.Unstructured) Handout {
	if account == nil || account.GetDeletionTimestamp() != nil {
		return Handout{}
	}
	name := account.GetAnnotations()[AnnotationTokenSecret]
	handout := Handout{Exists: true, AccountUID: account.GetUID(), LongLived: name != "", SecretName: name}
	if secret != nil && secret.GetDeletionTimestamp() == nil {
		handout.SecretUID, handout.Token = secret.GetUID(), issuedIn(secret, account)
	}
	return handout
}

// issuedIn is the token that a Secret holds for a ServiceAccount; "" while none is issued, or for that of an earlier
// ServiceAccount by the same name.
func issuedIn(secret, account *unstructured.Unstructured) string {
	if secret.GetAnnotations()[corev1.ServiceAccountUIDKey] != string(account.GetUID()) {
		return ""
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", corev1.ServiceAccountTokenKey)
	token, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(token)
}

// Look tells what an access hands out, from the lists that all resources of a process share: for plans and refreshes.
func Look(ctx context.Context, c *cluster.Cluster, ref Ref) (Handout, error) {
	var secret *unstructured.Unstructured
	account, err := c.Live(ctx, cluster.ServiceAccounts, ref.Namespace, ref.Name)
	if err != nil {
		return Handout{}, err
	}
	if account != nil && account.GetAnnotations()[AnnotationTokenSecret] != "" {
		if secret, err = c.Live(ctx, cluster.Secrets, ref.Namespace, account.GetAnnotations()[AnnotationTokenSecret]); err != nil {
			return Handout{}, err
		}
	}
	handout := handoutOf(account, secret)
	handout.Pending = c.Planned(cluster.ServiceAccounts, ref.Namespace, ref.Name)
	return handout, nil
}

// Await tells what an access hands out as it is now, and waits until a long-lived token is issued. The error is a
// *cluster.Problem about `access` where the ServiceAccount, or the Secret that it names, does not exist.
func Await(ctx context.Context, c *cluster.Cluster, ref Ref) (Handout, error) {
	account, secret, err := await(ctx, c, ref)
	if err != nil {
		return Handout{}, err
	}
	return handoutOf(account, secret), nil
}

func await(ctx context.Context, c *cluster.Cluster, ref Ref) (account, secret *unstructured.Unstructured, err error) {
	account, err = c.Fetch(ctx, cluster.ServiceAccounts, ref.Namespace, ref.Name)
	if err != nil {
		return nil, nil, err
	}
	object := kube.Name(cluster.ServiceAccounts.Kind, ref.Namespace, ref.Name)
	if account == nil || account.GetDeletionTimestamp() != nil {
		return nil, nil, &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("%s does not exist on cluster %q", object, c.Name()),
			Detail: fmt.Sprintf("refusing: access names %s, and %s does not exist on %s. Create it with berth_cluster_access, and set access to the id of that resource, which orders the two.", ref, object, c.Context()),
		}
	}
	name := account.GetAnnotations()[AnnotationTokenSecret]
	if name == "" {
		return account, nil, nil
	}
	if secret, err = c.Fetch(ctx, cluster.Secrets, ref.Namespace, name); err != nil {
		return nil, nil, err
	}
	if secret == nil {
		return nil, nil, &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("The token of %s is gone from cluster %q", object, c.Name()),
			Detail: fmt.Sprintf("refusing: %s on %s says that its token is in %s, which does not exist. Apply its berth_cluster_access, which makes it anew.",
				object, c.Context(), kube.Name(cluster.Secrets.Kind, ref.Namespace, name)),
		}
	}
	if issuedIn(secret, account) == "" {
		secret, err = waitIssued(ctx, c, account, name)
	}
	return account, secret, err
}

// waitIssued waits until the Secret of a long-lived token holds it.
func waitIssued(ctx context.Context, c *cluster.Cluster, account *unstructured.Unstructured, name string) (*unstructured.Unstructured, error) {
	var issued *unstructured.Unstructured
	err := kube.Wait(ctx, c, cluster.Secrets, account.GetNamespace(), name, "wait until its token is issued", func(live *unstructured.Unstructured) (bool, string) {
		issued = live
		return issuedIn(live, account) != "", "kube-controller-manager, which issues the tokens of ServiceAccounts, has not written data.token yet"
	})
	return issued, err
}

// Take gets a consumer a token to store: the long-lived one, which it marks as used by the consumer, or an expiring one
// that is bound to a Secret of the consumer's own. The consumer verifies it, and then calls Leave with the Secret's name.
func Take(ctx context.Context, c *cluster.Cluster, ref Ref, consumer kube.Owner, lifetime time.Duration) (Token, error) {
	for attempt := 1; ; attempt++ {
		account, secret, err := await(ctx, c, ref)
		if err != nil {
			return Token{}, err
		}
		if secret == nil {
			return mint(ctx, c, ref, consumer, lifetime, false)
		}
		err = markUse(ctx, c, secret, consumer)
		if err == nil {
			return Token{
				Value: issuedIn(secret, account), SecretName: secret.GetName(), SecretUID: secret.GetUID(), Issued: secret.GetCreationTimestamp().Time,
			}, nil
		}
		// It was replaced at the same moment.
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == useAttempts {
			return Token{}, fmt.Errorf("marking %s as used by %s: %w", kube.Describe(secret), consumer, err)
		}
		if err := standBack(ctx, attempt); err != nil {
			return Token{}, err
		}
	}
}

// Lend gets an expiring token for one run, whatever else the access hands out. It is nobody's to store: it stands in the way
// of no destroy, and where it is not given back by Leave, its Secret goes some time after it has expired.
func Lend(ctx context.Context, c *cluster.Cluster, ref Ref, borrower kube.Owner, lifetime time.Duration) (Token, error) {
	account, err := c.Fetch(ctx, cluster.ServiceAccounts, ref.Namespace, ref.Name)
	if err != nil {
		return Token{}, err
	}
	if account == nil {
		_, _, err := await(ctx, c, ref)
		return Token{}, err
	}
	return mint(ctx, c, ref, borrower, lifetime, true)
}

// clocksApart is how far the clocks of this machine and of the API server may be apart before a token that has expired here
// may still be good there.
const clocksApart = 5 * time.Minute

// mint creates a Secret that is the consumer's, and has the API server issue a token that is bound to it: with the Secret's
// deletion the token is refused.
func mint(ctx context.Context, c *cluster.Cluster, ref Ref, consumer kube.Owner, lifetime time.Duration, lent bool) (Token, error) {
	if lifetime < cluster.ShortestToken {
		return Token{}, &cluster.Problem{
			Summary: fmt.Sprintf("A token of %s cannot be minted for %s", ref, lifetime),
			Detail:  fmt.Sprintf("refusing: an API server issues no token for less than %s. Ask for a longer lifetime.", cluster.ShortestToken),
		}
	}
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return Token{}, err
	}
	desired := cluster.Secrets.New(ref.Namespace, ref.Name+"-minted-"+hex.EncodeToString(random))
	desired.Object["type"] = string(corev1.SecretTypeOpaque)
	kube.SetAnnotation(desired, AnnotationServiceAccount, ref.Name)
	kube.SetAnnotation(desired, AnnotationExpires, time.Now().Add(lifetime+clocksApart).UTC().Format(time.RFC3339))
	if lent {
		kube.SetAnnotation(desired, AnnotationLent, "true")
	}
	secret, err := kube.Converge(ctx, c, kube.Object{Kind: cluster.Secrets, Desired: desired}, kube.Terms{Owner: consumer})
	if err != nil {
		return Token{}, err
	}
	issued, err := c.RequestToken(ctx, cluster.TokenRequest{
		Namespace: ref.Namespace, ServiceAccount: ref.Name, Lifetime: lifetime, Secret: secret.GetName(), SecretUID: secret.GetUID(),
	})
	if err != nil {
		// What can't be taken back now is found by the next Leave.
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
		defer cancel()
		_ = c.Delete(again, cluster.Secrets, secret.GetNamespace(), secret.GetName(), secret.GetUID())
		return Token{}, fmt.Errorf("minting a token of %s: %w", kube.Name(cluster.ServiceAccounts.Kind, ref.Namespace, ref.Name), err)
	}
	return Token{Value: issued.Value, SecretName: secret.GetName(), SecretUID: secret.GetUID(), Issued: issued.Issued, Expires: issued.Expires}, nil
}

// takeBackTime is what taking back a Secret without a token may take.
const takeBackTime = 10 * time.Second

// Leave takes a consumer off every other token of the ServiceAccount than the one in the Secret keep ("" for all): the
// tokens that it minted are revoked with their Secrets, its mark is taken off long-lived ones, and a long-lived one that was
// superseded and that nobody uses any more is deleted.
func Leave(ctx context.Context, c *cluster.Cluster, ref Ref, consumer kube.Owner, keep string) error {
	_, minted, err := secretsOf(ctx, c, ref.Namespace, ref.Name)
	if err != nil {
		return err
	}
	for _, secret := range minted {
		if owner, ok := kube.ParseOwner(secret); !ok || owner != consumer || secret.GetName() == keep {
			continue
		}
		c.Progress(ctx, kube.Describe(secret), "delete", "its token is revoked")
		if err := c.Delete(ctx, cluster.Secrets, secret.GetNamespace(), secret.GetName(), secret.GetUID()); err != nil {
			return err
		}
	}
	if err := sweep(ctx, c, minted); err != nil {
		return err
	}
	// By the mark of the use, because one that is berth's no longer is still marked.
	used, err := c.Select(ctx, cluster.Secrets, ref.Namespace, useKey(consumer), "")
	if err != nil {
		return err
	}
	current := func() (string, error) {
		account, err := c.Fetch(ctx, cluster.ServiceAccounts, ref.Namespace, ref.Name)
		return handoutOf(account, nil).SecretName, err
	}
	for _, secret := range used {
		if secret.GetName() == keep || !isLongLived(secret, ref.Name) {
			continue
		}
		if err := release(ctx, c, secret, consumer, current); err != nil {
			return err
		}
	}
	return nil
}
