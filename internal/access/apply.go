package access

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Converge makes the access what the Spec says and returns its ServiceAccount. Run again after an interruption it goes on
// from what carries its marks. before is the Spec that the state holds, nil at a create.
//
// A new token is there before the ServiceAccount names it, and one that was replaced goes when nobody uses it any more.
func (s Spec) Converge(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec) (*unstructured.Unstructured, error) {
	if err := s.ensureNamespace(ctx, c, terms.Owner); err != nil {
		return nil, err
	}
	object := s.account(s.SecretName())
	account, err := c.Fetch(ctx, cluster.ServiceAccounts, s.Namespace, s.ServiceAccount)
	if err != nil {
		return nil, err
	}
	isNew := account == nil || account.GetDeletionTimestamp() != nil
	if isNew {
		if account, err = kube.ConvergeFrom(ctx, c, object, before.hold(terms, object), account); err != nil {
			return nil, err
		}
	} else if _, err := kube.Judge(c, object, before.hold(terms, object), account); err != nil {
		return nil, err
	}
	if err := s.convergeBinding(ctx, c, before.hold(terms, s.binding())); err != nil {
		return nil, err
	}
	if s.TokenSecret {
		if err := s.issue(ctx, c, before.hold(terms, s.secret(s.SecretName())), account); err != nil {
			return nil, err
		}
	}
	if !isNew {
		if account, err = kube.Converge(ctx, c, object, before.hold(terms, object)); err != nil {
			return nil, err
		}
	}
	return account, s.clean(ctx, c, terms.Owner)
}

// ensureNamespace creates the namespace where it is missing. It is marked, so that it goes with the access when nothing else
// is in it.
func (s Spec) ensureNamespace(ctx context.Context, c *cluster.Cluster, owner kube.Owner) error {
	live, err := c.Exists(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live != nil && live.GetDeletionTimestamp() == nil {
		return err
	}
	if live != nil && kube.Inspect(live, owner).Standing != kube.Ours {
		return s.namespaceLeaves(c)
	}
	_, err = kube.Converge(ctx, c, s.namespace(), kube.Terms{Owner: owner})
	return err
}

// convergeBinding makes the binding. One whose role has to change is deleted and created again. Killed in between, the next
// apply finds none and creates it.
func (s Spec) convergeBinding(ctx context.Context, c *cluster.Cluster, terms kube.Terms) error {
	object := s.binding()
	name := object.Desired.GetName()
	live, err := c.Fetch(ctx, object.Kind, "", name)
	if err != nil {
		return err
	}
	outlook, err := kube.Judge(c, object, terms, live)
	if err != nil {
		return err
	}
	if outlook.Verdict != kube.Create {
		if fixed := fixedIn(object, live); len(fixed) > 0 {
			if err := checkRecreate(c, object, live, fixed); err != nil {
				return err
			}
			c.Progress(ctx, object.Describe(), "delete", "it is created again, because Kubernetes never lets this change: "+describe(fixed))
			if err := c.Delete(ctx, object.Kind, "", name, live.GetUID()); err != nil {
				return err
			}
			if err := kube.WaitGone(ctx, c, object.Kind, "", name, live.GetUID()); err != nil {
				return err
			}
			live = nil
		}
	}
	_, err = kube.ConvergeFrom(ctx, c, object, terms, live)
	return err
}

const (
	// issueLooks is how often a Secret that should get its token is looked at anew before the wait for it lasts as long as
	// it takes, and issuePause how long each of these waits is.
	issueLooks = 3
	issuePause = 5 * time.Second
)

// issue makes the Secret of the long-lived token and waits until the token is in it. A ServiceAccount that was made anew a
// moment ago may still be the old one to the controller: then the Secret is deleted with the old one, and made again.
func (s Spec) issue(ctx context.Context, c *cluster.Cluster, terms kube.Terms, account *unstructured.Unstructured) error {
	object := s.secret(s.SecretName())
	name := object.Desired.GetName()
	for look := 1; ; look++ {
		live, err := c.Fetch(ctx, cluster.Secrets, s.Namespace, name)
		if err != nil {
			return err
		}
		if live != nil && ofAnother(live, account) && kube.Created(live) && terms.Ours(live) {
			if err := c.Delete(ctx, cluster.Secrets, s.Namespace, name, live.GetUID()); err != nil {
				return err
			}
			live = nil
		}
		// Once is enough for one that stays: every apply writes it.
		if look == 1 || live == nil || live.GetDeletionTimestamp() != nil {
			if live, err = kube.ConvergeFrom(ctx, c, object, terms, live); err != nil {
				return err
			}
		}
		if issuedIn(live, account) != "" {
			return nil
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if look <= issueLooks {
			wait, cancel = context.WithTimeout(ctx, issuePause)
		}
		_, err = waitIssued(wait, c, account, name)
		cancel()
		if err == nil || ctx.Err() != nil || look > issueLooks {
			return err
		}
	}
}

// ofAnother tells whether a Secret holds the token of an earlier ServiceAccount by the same name.
func ofAnother(secret, account *unstructured.Unstructured) bool {
	uid := secret.GetAnnotations()[corev1.ServiceAccountUIDKey]
	return uid != "" && uid != string(account.GetUID())
}

// clean deletes the long-lived tokens that were replaced and that nobody uses.
func (s Spec) clean(ctx context.Context, c *cluster.Cluster, owner kube.Owner) error {
	longLived, minted, err := secretsOf(ctx, c, s.Namespace, s.ServiceAccount)
	if err != nil {
		return err
	}
	for _, secret := range longLived {
		if !s.isSpent(secret, owner) {
			continue
		}
		c.Progress(ctx, kube.Describe(secret), "delete", "its token was superseded, and nobody uses it")
		// One that somebody has just begun to use stays, until its last user leaves it.
		if err := c.DeleteAsSeen(ctx, cluster.Secrets, secret); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return sweep(ctx, c, minted)
}

// isSpent tells whether a Secret holds a token that the access has replaced and that nobody uses.
func (s Spec) isSpent(secret *unstructured.Unstructured, owner kube.Owner) bool {
	return isLongLived(secret, s.ServiceAccount) && isSuperseded(secret, s.SecretName()) &&
		kube.Inspect(secret, owner).Standing == kube.Ours && len(usersOf(secret)) == 0
}
