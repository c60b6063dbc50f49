package argocd

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Where the credential in a cluster's Secret comes from, as the annotation says it.
const (
	// fromAccess: a token of the ServiceAccount of a berth_cluster_access.
	fromAccess = "access"
	// fromConnection: the token or client certificate of the cluster's own entry.
	fromConnection = "connection"
	// found: what was there when the registration was imported or adopted. It stays as long as it works.
	found = "found"
)

// credential is what Argo CD connects with.
type credential struct {
	source string
	config connection
	// token is set where it is one of an access.
	token access.Token
	// refused is why the cluster does not take it; nil where it does, or where that can't be told.
	refused error
	// stale says in words why a new one has to be written.
	stale string
}

// annotations are those of the Secret that remember the credential.
func (c credential) annotations() map[string]string {
	annotations := map[string]string{annotationCredential: c.source}
	if c.source == fromAccess && c.token.SecretName != "" {
		annotations[annotationToken] = c.token.SecretName
		if !c.token.Expires.IsZero() {
			annotations[annotationTokenIssued] = c.token.Issued.UTC().Format(time.RFC3339)
			annotations[annotationTokenExpires] = c.token.Expires.UTC().Format(time.RFC3339)
		}
	}
	return annotations
}

// written reads back the credential that a Secret holds.
func written(secret *unstructured.Unstructured) credential {
	config, _ := configOf(secret)
	annotations := secret.GetAnnotations()
	cred := credential{source: annotations[annotationCredential], config: config}
	cred.token = access.Token{Value: config.BearerToken, SecretName: annotations[annotationToken]}
	cred.token.Issued, _ = time.Parse(time.RFC3339, annotations[annotationTokenIssued])
	cred.token.Expires, _ = time.Parse(time.RFC3339, annotations[annotationTokenExpires])
	return cred
}

// wanted is the credential that the Secret should hold, as far as it can be told without making one. live is the Secret,
// nil where there is none yet; then, and where a token has to be minted, ok is false.
func (s Spec) wanted(ctx context.Context, clusters Clusters, live *unstructured.Unstructured) (cred credential, ok bool, err error) {
	if live != nil && clusters.silent() {
		// Nothing can be asked about it.
		return written(live), true, nil
	}
	if s.Access != nil {
		return s.wantedOfAccess(ctx, clusters, live)
	}
	if live != nil {
		have := written(live)
		// What berth itself created holds what berth put there, whatever became of the annotation that says so.
		if have.source == found || have.source == "" && !kube.Created(live) {
			have.source = found
			if have.refused = s.tryFound(ctx, clusters, live); have.refused == nil {
				return have, true, nil
			}
			have.stale = "the credential that was found does not work any more"
			if fresh, err := clusters.Workload.StoredCredential(); err == nil {
				return credential{source: fromConnection, config: connectionOf(fresh), refused: have.refused, stale: have.stale}, true, nil
			}
			return have, true, nil
		}
	}
	stored, err := clusters.Workload.StoredCredential()
	if err != nil {
		return credential{}, false, err
	}
	return credential{source: fromConnection, config: connectionOf(stored)}, true, nil
}

// tryFound tries the credential that was found in a Secret, and tells why it is of no use; nil where it works, and where
// that can't be told from here: one with which only Argo CD can sign in, or one that needs a way that only Argo CD has.
func (s Spec) tryFound(ctx context.Context, clusters Clusters, live *unstructured.Unstructured) error {
	config, readable := configOf(live)
	if !readable {
		return fmt.Errorf("the config in Secret %s is not what Argo CD reads", s.ref())
	}
	// At the address of our own connection: Argo CD's may not be reachable from here (I21).
	ours := clusters.Workload.Server()
	stored, ok := config.stored(ours)
	if !ok {
		return nil
	}
	err := s.verify(ctx, clusters, stored)
	connection, is := errors.AsType[*cluster.ConnectionError](err)
	if is && !unauthorized(err) && (connection.Unreachable() || !cluster.SameServer(secretField(live, "server"), ours)) {
		return nil
	}
	return err
}

// verify tries a credential, and makes sure that it leads to the same cluster (I24). One that is accepted and may do less
// than read a namespace leads to the address that was asked, and is as good.
func (s Spec) verify(ctx context.Context, clusters Clusters, stored cluster.Stored) error {
	want, err := clusters.Workload.UID(ctx)
	if err != nil {
		return err
	}
	tried, err := stored.Cluster(clusters.Workload.Name(), clusters.Workload)
	if err != nil {
		return err
	}
	uid, err := tried.UID(ctx)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if uid != want {
		return &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("The credential for %q leads to another cluster", s.Name),
			Detail: fmt.Sprintf("refusing: at %s it reached the cluster with UID %s, but %q is the one with UID %s.", stored.Server, uid, clusters.Workload.Name(), want),
		}
	}
	return nil
}

// wantedOfAccess is wanted for a token of a ServiceAccount.
func (s Spec) wantedOfAccess(ctx context.Context, clusters Clusters, live *unstructured.Unstructured) (credential, bool, error) {
	handout, err := access.Look(ctx, clusters.Workload, *s.Access)
	if err != nil {
		return credential{}, false, err
	}
	connected, err := clusters.Workload.StoredConnection()
	if err != nil {
		return credential{}, false, err
	}
	var have credential
	if live != nil {
		have = written(live)
	}
	switch {
	case !handout.Exists:
		have.refused = fmt.Errorf("ServiceAccount %s/%s does not exist on cluster %q", s.Access.Namespace, s.Access.Name, clusters.Workload.Name())
		have.stale = have.refused.Error()
	case handout.LongLived && handout.Token == "":
		have.refused = fmt.Errorf("Secret %s/%s with the token of its ServiceAccount is missing on cluster %q", s.Access.Namespace, handout.SecretName, clusters.Workload.Name())
		have.stale = "the token was revoked"
	case handout.LongLived:
		connected.Token = handout.Token
		return credential{
			source: fromAccess, config: connectionOf(connected), token: access.Token{Value: handout.Token, SecretName: handout.SecretName, SecretUID: handout.SecretUID},
		}, true, nil
	case have.source != fromAccess || have.token.Expires.IsZero():
		have.stale = "no token was minted yet"
	default:
		if renew := access.RenewAt(have.token.Issued, have.token.Expires); !time.Now().Before(renew) {
			have.stale = fmt.Sprintf("the token expires at %s, and is renewed from %s on", have.token.Expires.UTC().Format(time.RFC3339), renew.UTC().Format(time.RFC3339))
		}
		bound, err := clusters.Workload.Live(ctx, cluster.Secrets, s.Access.Namespace, have.token.SecretName)
		if err != nil {
			return credential{}, false, err
		}
		switch {
		case bound == nil || bound.GetDeletionTimestamp() != nil:
			have.refused = fmt.Errorf("Secret %s/%s to which the token is bound is missing on cluster %q", s.Access.Namespace, have.token.SecretName, clusters.Workload.Name())
		case !issuedFor(have.token.Value, handout.AccountUID, bound.GetUID()):
			have.refused = fmt.Errorf("the token is not one of the ServiceAccount %s/%s and the Secret %s that are on cluster %q now", s.Access.Namespace, s.Access.Name, have.token.SecretName, clusters.Workload.Name())
		}
		if have.refused != nil {
			have.stale = "the token was revoked"
		}
		// All but the token is as the connection has it now.
		token := have.token.Value
		connected.Token = token
		have.config = connectionOf(connected)
	}
	return have, live != nil && have.stale == "", nil
}

// obtain makes the credential for an apply, and tries it before anything is given to Argo CD.
func (s Spec) obtain(ctx context.Context, clusters Clusters, live *unstructured.Unstructured, owner kube.Owner) (credential, error) {
	cred, ok, err := s.wanted(ctx, clusters, live)
	if err != nil {
		return credential{}, err
	}
	if !ok && s.Access != nil {
		connected, err := clusters.Workload.StoredConnection()
		if err != nil {
			return credential{}, err
		}
		token, err := access.Take(ctx, clusters.Workload, *s.Access, owner, s.TokenLifetime)
		if err != nil {
			return credential{}, err
		}
		connected.Token = token.Value
		cred = credential{source: fromAccess, config: connectionOf(connected), token: token}
	} else if s.Access != nil && cred.source == fromAccess && cred.token.Expires.IsZero() {
		// Long-lived: say that it is in use before it is.
		if cred.token, err = access.Take(ctx, clusters.Workload, *s.Access, owner, s.TokenLifetime); err != nil {
			return credential{}, err
		}
		cred.config.BearerToken = cred.token.Value
	}
	if cred.source == found {
		if cred.refused != nil {
			return credential{}, cred.refused
		}
		return cred, nil
	}
	stored, usable := cred.config.stored(clusters.Workload.Server())
	if !usable {
		return credential{}, fmt.Errorf("the credential of %q holds neither a token nor a certificate", s.Name)
	}
	if err := s.awaitAccepted(ctx, clusters, stored); err != nil {
		return credential{}, err
	}
	cred.refused, cred.stale = nil, ""
	return cred, nil
}

// acceptedWithin is how long a new token may take to be accepted: API servers read ServiceAccounts and their Secrets from
// caches, which lag a moment behind.
const acceptedWithin = 20 * time.Second

// unauthorized tells whether an API server has refused a credential.
func unauthorized(err error) bool {
	refused, is := errors.AsType[*cluster.ConnectionError](err)
	return is && refused.Cause == cluster.CauseUnauthorized
}

func (s Spec) awaitAccepted(ctx context.Context, clusters Clusters, stored cluster.Stored) error {
	limited, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	for {
		err := s.verify(limited, clusters, stored)
		if err == nil || s.Access == nil || !unauthorized(err) {
			return err
		}
		select {
		case <-limited.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
