package access

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Who uses a long-lived token says so on its Secret, by a label that a selector finds and an annotation with the full name.
// Both are written by a field manager of the consumer's own, so that concurrent consumers never overwrite each other.
func useKey(consumer kube.Owner) string     { return kube.UserPrefix + consumer.Hash() }
func useManager(consumer kube.Owner) string { return "berth-user-" + consumer.Hash() }

// longestLabel is how long the value of a label can be.
const longestLabel = 63

// useLabel is the consumer's name as the value of a label can hold it, for people.
func useLabel(consumer kube.Owner) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '.'
	}, consumer.Resource)
	return strings.Trim(name[:min(len(name), longestLabel)], "-_.")
}

// usersOf are the consumers that say on a Secret that they use its token, sorted.
func usersOf(secret *unstructured.Unstructured) []string {
	var users []string
	for key, label := range secret.GetLabels() {
		if strings.HasPrefix(key, kube.UserPrefix) {
			users = append(users, cmp.Or(secret.GetAnnotations()[key], label))
		}
	}
	slices.Sort(users)
	return users
}

func uses(secret *unstructured.Unstructured, consumer kube.Owner) bool {
	_, used := secret.GetLabels()[useKey(consumer)]
	return used
}

// markUse marks a long-lived token as used by a consumer. The error satisfies apierrors.IsConflict or IsNotFound where the
// Secret is gone, or is another one now.
func markUse(ctx context.Context, c *cluster.Cluster, secret *unstructured.Unstructured, consumer kube.Owner) error {
	key := useKey(consumer)
	if uses(secret, consumer) && secret.GetAnnotations()[key] == consumer.String() {
		return nil
	}
	return patchUse(ctx, c, secret, consumer, map[string]any{
		"uid": string(secret.GetUID()), "labels": map[string]any{key: useLabel(consumer)}, "annotations": map[string]any{key: consumer.String()},
	})
}

func patchUse(ctx context.Context, c *cluster.Cluster, secret *unstructured.Unstructured, consumer kube.Owner, metadata map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = c.MergePatch(ctx, cluster.Secrets, secret.GetNamespace(), secret.GetName(), body, useManager(consumer))
	return err
}

const (
	// useAttempts is how often a Secret is looked at anew where others write it at the same moment.
	useAttempts = 12
	// usePause is how long to stand back before that, times the attempt, and up to as long again at random.
	usePause = 20 * time.Millisecond
)

func standBack(ctx context.Context, attempt int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait.Jitter(time.Duration(attempt)*usePause, 1)):
		return nil
	}
}

// release takes a consumer's use off a long-lived token, or deletes its Secret with it where the token was superseded and
// nobody else uses it. Either is one write, for the Secret as it was seen: a consumer that comes at the same moment makes
// it look again. current is asked again after the mark is off, because who replaces a token at that moment looks for marks
// after having said so: one of the two sees the other.
func release(ctx context.Context, c *cluster.Cluster, secret *unstructured.Unstructured, consumer kube.Owner, current func() (string, error)) error {
	for attempt := 1; ; attempt++ {
		name, err := current()
		if err != nil {
			return err
		}
		used, users := uses(secret, consumer), len(usersOf(secret))
		switch {
		case (users == 0 || used && users == 1) && isSuperseded(secret, name):
			c.Progress(ctx, kube.Describe(secret), "delete", "its token was superseded, and nobody uses it any more")
			err = c.DeleteAsSeen(ctx, cluster.Secrets, secret)
			if err == nil {
				return nil
			}
		case !used:
			return nil
		default:
			key := useKey(consumer)
			err = patchUse(ctx, c, secret, consumer, map[string]any{
				"uid": string(secret.GetUID()), "resourceVersion": secret.GetResourceVersion(),
				"labels": map[string]any{key: nil}, "annotations": map[string]any{key: nil},
			})
		}
		if apierrors.IsConflict(err) {
			if attempt == useAttempts {
				return err
			}
			if err := standBack(ctx, attempt); err != nil {
				return err
			}
		} else if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if secret, err = c.Fetch(ctx, cluster.Secrets, secret.GetNamespace(), secret.GetName()); err != nil || secret == nil {
			return err
		}
	}
}

// isSuperseded tells whether a long-lived token is one that an access of berth's has made and replaced since.
func isSuperseded(secret *unstructured.Unstructured, current string) bool {
	owner, marked := kube.ParseOwner(secret)
	return secret.GetName() != current && kube.Created(secret) && marked && strings.HasPrefix(owner.Resource, ownerPrefix)
}

// ownerPrefix begins the resource on the marks of an access.
const ownerPrefix = "cluster_access."

// use is one consumer of a token.
type use struct{ consumer, secret string }

// usesOf tells who uses tokens of a ServiceAccount now. Tokens that have expired, and those that are for one run, are used
// by nobody.
func usesOf(ctx context.Context, c *cluster.Cluster, ref Ref) ([]use, error) {
	longLived, minted, err := secretsOf(ctx, c, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var found []use
	for _, secret := range longLived {
		for _, consumer := range usersOf(secret) {
			found = append(found, use{consumer, kube.Describe(secret)})
		}
	}
	for _, secret := range minted {
		if owner, ok := kube.ParseOwner(secret); ok && !isLent(secret) && !isExpired(secret) {
			found = append(found, use{owner.String(), kube.Describe(secret)})
		}
	}
	slices.SortFunc(found, func(a, b use) int {
		return cmp.Or(strings.Compare(a.consumer, b.consumer), strings.Compare(a.secret, b.secret))
	})
	return found, nil
}

// InUse are the consumers that store a token of the ServiceAccount, each as configuration/type.name, sorted.
func InUse(ctx context.Context, c *cluster.Cluster, ref Ref) (consumers []string, err error) {
	found, err := usesOf(ctx, c, ref)
	for _, one := range found {
		consumers = append(consumers, one.consumer)
	}
	return slices.Compact(consumers), err
}

func isLent(secret *unstructured.Unstructured) bool {
	return secret.GetAnnotations()[AnnotationLent] == "true"
}

func isExpired(secret *unstructured.Unstructured) bool {
	expires, err := time.Parse(time.RFC3339, secret.GetAnnotations()[AnnotationExpires])
	return err == nil && time.Now().After(expires)
}

// sweep deletes the Secrets of tokens that were for one run which ended without giving them back.
func sweep(ctx context.Context, c *cluster.Cluster, minted []*unstructured.Unstructured) error {
	for _, secret := range minted {
		if isLent(secret) && isExpired(secret) && kube.Created(secret) {
			if err := c.Delete(ctx, cluster.Secrets, secret.GetNamespace(), secret.GetName(), secret.GetUID()); err != nil {
				return fmt.Errorf("deleting %s, whose token has expired: %w", kube.Describe(secret), err)
			}
		}
	}
	return nil
}
