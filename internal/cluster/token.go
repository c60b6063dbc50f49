package cluster

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ShortestToken is the shortest lifetime for which an API server issues a token. Source: the validation of TokenRequest,
// "may not specify a duration less than 10 minutes".
const ShortestToken = 10 * time.Minute

// TokenRequest asks for an expiring token of a ServiceAccount.
type TokenRequest struct {
	// Namespace and ServiceAccount name whose token it is.
	Namespace, ServiceAccount string
	// Lifetime is what is asked for; the API server may give less.
	Lifetime time.Duration
	// Secret and SecretUID are the Secret, in the same namespace, that the token is bound to: without it the API server
	// refuses the token.
	Secret    string
	SecretUID types.UID
}

// IssuedToken is an API server's answer to a TokenRequest, by its own clock.
type IssuedToken struct {
	Value           string
	Issued, Expires time.Time
}

// RequestToken has the API server issue a token. Nothing is stored there.
func (c *Cluster) RequestToken(ctx context.Context, request TokenRequest) (IssuedToken, error) {
	if err := c.connect(); err != nil {
		return IssuedToken{}, err
	}
	seconds := int64(request.Lifetime / time.Second)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Name: request.ServiceAccount, Namespace: request.Namespace},
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: Secrets.Kind, APIVersion: Secrets.Version, Name: request.Secret, UID: request.SecretUID},
		},
	})
	if err != nil {
		return IssuedToken{}, err
	}
	question := &unstructured.Unstructured{Object: content}
	question.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	answer, err := c.resource(ServiceAccounts, request.Namespace).Create(ctx, question, metav1.CreateOptions{}, "token")
	if err != nil {
		return IssuedToken{}, c.classify(err)
	}
	var issued authenticationv1.TokenRequest
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &issued); err != nil {
		return IssuedToken{}, fmt.Errorf("reading the API server's answer to a TokenRequest: %w", err)
	}
	// The answer has the lifetime that was given, not the one that was asked for.
	expires := issued.Status.ExpirationTimestamp.Time
	if issued.Spec.ExpirationSeconds != nil {
		seconds = *issued.Spec.ExpirationSeconds
	}
	return IssuedToken{Value: issued.Status.Token, Issued: expires.Add(-time.Duration(seconds) * time.Second), Expires: expires}, nil
}
