package argocd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// clusterSelector selects the Secrets that Argo CD reads as clusters.
const clusterSelector = LabelSecretType + "=" + SecretTypeCluster

// Annotations on the cluster's Secret that say where the credential in it comes from.
const (
	annotationCredential   = "berth.dev/credential"
	annotationToken        = "berth.dev/token"
	annotationTokenIssued  = "berth.dev/token-issued"
	annotationTokenExpires = "berth.dev/token-expires"
)

// tlsConfig is tlsClientConfig of a cluster's config; the *Data fields are base64 of PEM. Source: Argo CD's
// v1alpha1.TLSClientConfig.
type tlsConfig struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName,omitempty"`
	CertData   []byte `json:"certData,omitempty"`
	KeyData    []byte `json:"keyData,omitempty"`
	CAData     []byte `json:"caData,omitempty"`
}

// connection is the config of a cluster's Secret (I6). Source: Argo CD's v1alpha1.ClusterConfig.
type connection struct {
	Username           string          `json:"username,omitempty"`
	Password           string          `json:"password,omitempty"`
	BearerToken        string          `json:"bearerToken,omitempty"`
	TLSClientConfig    tlsConfig       `json:"tlsClientConfig"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig,omitempty"`
	ExecProviderConfig json.RawMessage `json:"execProviderConfig,omitempty"`
	DisableCompression bool            `json:"disableCompression,omitempty"`
	ProxyURL           string          `json:"proxyUrl,omitempty"`
}

// connectionOf is the config that makes Argo CD connect with a stored credential.
func connectionOf(stored cluster.Stored) connection {
	return connection{
		BearerToken: stored.Token, DisableCompression: stored.DisableCompression, ProxyURL: stored.ProxyURL,
		TLSClientConfig: tlsConfig{
			Insecure: stored.Insecure, ServerName: stored.TLSServerName, CAData: stored.CAData, CertData: stored.CertData, KeyData: stored.KeyData,
		},
	}
}

// stored is the credential of a config, for one that a client can use as it is; false where Argo CD itself signs in to a
// cloud, has a password, or has nothing to sign in with. A config may have both a token and a certificate.
func (c connection) stored(server string) (cluster.Stored, bool) {
	tls := c.TLSClientConfig
	if c.AWSAuthConfig != nil || c.ExecProviderConfig != nil || c.Username != "" || c.BearerToken == "" && len(tls.CertData) == 0 {
		return cluster.Stored{}, false
	}
	if c.BearerToken != "" && (len(tls.CertData) == 0 || len(tls.KeyData) == 0) {
		tls.CertData, tls.KeyData = nil, nil // client-go takes no notice of half a certificate
	}
	return cluster.Stored{
		Server: server, Token: c.BearerToken, DisableCompression: c.DisableCompression, ProxyURL: c.ProxyURL,
		CAData: tls.CAData, Insecure: tls.Insecure, TLSServerName: tls.ServerName, CertData: tls.CertData, KeyData: tls.KeyData,
	}, true
}

// secretField is one field of a Secret's data; "" when it is not there.
func secretField(secret *unstructured.Unstructured, key string) string {
	if secret == nil {
		return ""
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(decoded)
}

// configOf reads the config of a cluster's Secret; false where it is none.
func configOf(secret *unstructured.Unstructured) (connection, bool) {
	var config connection
	err := json.Unmarshal([]byte(secretField(secret, "config")), &config)
	for _, one := range []*json.RawMessage{&config.AWSAuthConfig, &config.ExecProviderConfig} {
		if string(*one) == "null" {
			*one = nil
		}
	}
	return config, err == nil
}

// namespacesIn reads the field namespaces of a cluster's Secret as Argo CD does.
func namespacesIn(field string) []string {
	var namespaces []string
	for one := range strings.SplitSeq(field, ",") {
		if one = strings.TrimSpace(one); one != "" {
			namespaces = append(namespaces, one)
		}
	}
	return namespaces
}

// inItsWords is the server as a Secret has it where it means the same one, or else as it is given.
func inItsWords(server string, live *unstructured.Unstructured) string {
	if have := secretField(live, "server"); have != "" && cluster.SameServer(have, server) {
		return have
	}
	return server
}

// ref names the cluster's Secret, as the output argocd_secret does.
func (s Spec) ref() string { return s.Namespace + "/" + s.SecretName }

// argoServer is the address by which Argo CD knows the cluster.
func (s Spec) argoServer(of *cluster.Cluster) string {
	switch {
	case s.InCluster:
		return InClusterServer
	case s.Server != "":
		return s.Server
	}
	return of.Server()
}

// secretObject is the Secret as it shall be. Where live says the same in other words, its words are kept.
func (s Spec) secretObject(server string, cred credential, facts facts, live *unstructured.Unstructured) (kube.Object, error) {
	data := map[string]string{"name": s.Name, "server": inItsWords(server, live)}
	config, err := json.Marshal(cred.config)
	if err != nil {
		return kube.Object{}, err
	}
	data["config"] = string(config)
	if have, ok := configOf(live); ok && reflect.DeepEqual(have, cred.config) {
		data["config"] = secretField(live, "config")
	}
	if s.Project != "" {
		data["project"] = s.Project
	}
	if len(s.Namespaces) > 0 {
		data["namespaces"] = strings.Join(s.Namespaces, ",")
		if have := secretField(live, "namespaces"); slices.Equal(namespacesIn(have), s.Namespaces) {
			data["namespaces"] = have
		}
	}
	if s.ClusterResources != nil {
		data["clusterResources"] = strconv.FormatBool(*s.ClusterResources)
	}
	if s.Shard != nil {
		data["shard"] = strconv.FormatInt(*s.Shard, 10)
		if have := secretField(live, "shard"); have != "" {
			if same, err := strconv.ParseInt(have, 10, 64); err == nil && same == *s.Shard {
				data["shard"] = have
			}
		}
	}
	object := cluster.Secrets.New(s.Namespace, s.SecretName)
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	object.Object["data"] = encoded
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelSecretType] = SecretTypeCluster
	for key, value := range map[string]string{LabelProvider: s.Provider, LabelFlavor: s.Flavor, LabelRegion: s.Region, LabelOrg: s.Org} {
		if value != "" {
			labels[key] = value
		}
	}
	object.SetLabels(labels)
	annotations := maps.Clone(s.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, cred.annotations())
	if facts.uid != "" {
		annotations[AnnotationClusterUID] = facts.uid
	}
	object.SetAnnotations(annotations)
	return kube.Object{Kind: cluster.Secrets, Desired: object}, nil
}

// unwritten takes from a Secret's wanted form what only an apply of ours writes, and what moves by itself: an import has
// neither, and that is no drift.
func unwritten(object kube.Object, marked bool) kube.Object {
	wanted := object.Desired.DeepCopy()
	labels, annotations := wanted.GetLabels(), wanted.GetAnnotations()
	delete(annotations, AnnotationVersion)
	delete(annotations, AnnotationNodes)
	if !marked {
		for _, key := range []string{annotationCredential, annotationToken, annotationTokenIssued, annotationTokenExpires, AnnotationClusterUID} {
			delete(annotations, key)
		}
		for _, key := range []string{LabelProvider, LabelFlavor, LabelRegion} {
			delete(labels, key)
		}
	}
	wanted.SetLabels(labels)
	wanted.SetAnnotations(annotations)
	object.Desired = wanted
	return object
}

// clusterSecrets are all Secrets that Argo CD reads as clusters, from one list.
func clusterSecrets(ctx context.Context, management *cluster.Cluster, namespace string) ([]*unstructured.Unstructured, error) {
	return management.SelectedIn(ctx, cluster.Secrets, namespace, clusterSelector)
}

// liveSecret is the cluster's Secret; nil when there is none.
func (s Spec) liveSecret(ctx context.Context, management *cluster.Cluster) (*unstructured.Unstructured, error) {
	if s.InCluster {
		return nil, nil
	}
	return management.LiveBy(ctx, cluster.Secrets, s.Namespace, s.SecretName, clusterSelector)
}

// checkDuplicates refuses a cluster that Argo CD knows already under another Secret: it keys clusters by their server, and
// Applications by their name (I102).
func (s Spec) checkDuplicates(ctx context.Context, clusters Clusters, uid string) ([]Warning, error) {
	if s.InCluster {
		return nil, nil
	}
	if s.Name == InClusterName {
		return nil, &cluster.Problem{
			Attribute: "name", Summary: fmt.Sprintf("%q is the name of the cluster that Argo CD runs in", s.Name),
			Detail: "refusing: Argo CD gives it to that cluster by itself, and an Application that names it could go to either. Choose another name.",
		}
	}
	server, where := s.argoServer(clusters.Workload), clusters.Management.Context()
	// Two of one plan meet here, before either is written.
	if first := clusters.Management.Claim("registration/"+s.Namespace+"/"+strings.TrimSuffix(strings.ToLower(server), "/"), s.ref()); first != s.ref() {
		return nil, &cluster.Problem{
			Attribute: "cluster", Summary: fmt.Sprintf("Two resources register %s with Argo CD on %s", server, where),
			Detail: fmt.Sprintf("refusing: Secret %s and Secret %s would have the same server, and Argo CD tells clusters apart by it: two would hide each other. Take one of the two resources out.", first, s.ref()),
		}
	}
	all, err := clusterSecrets(ctx, clusters.Management, s.Namespace)
	if err != nil {
		return nil, err
	}
	var warnings []Warning
	for _, other := range all {
		if other.GetName() == s.SecretName || clusters.Management.Leaving(cluster.Secrets, s.Namespace, other.GetName()) {
			continue
		}
		called := secretField(other, "name")
		remedy := fmt.Sprintf("To take that registration over, set secret_name = %q, name = %q and adopt = true, or import it; otherwise remove it first.", other.GetName(), called)
		if cluster.SameServer(secretField(other, "server"), server) {
			return warnings, &cluster.Problem{
				Attribute: "cluster", Summary: fmt.Sprintf("Argo CD on %s knows %s already, as %q", where, server, called),
				Detail: fmt.Sprintf("refusing: Secret %s/%s on %s registers the same server, and Argo CD tells clusters apart by it: two would hide each other. %s", other.GetNamespace(), other.GetName(), where, remedy),
			}
		}
		if called == s.Name {
			return warnings, &cluster.Problem{
				Attribute: "name", Summary: fmt.Sprintf("Argo CD on %s has a cluster called %q already", where, s.Name),
				Detail: fmt.Sprintf("refusing: Secret %s/%s on %s has this name for %s, and an Application that names it could go to either. Choose another name. %s",
					other.GetNamespace(), other.GetName(), where, secretField(other, "server"), remedy),
			}
		}
		if uid != "" && other.GetAnnotations()[AnnotationClusterUID] == uid {
			warnings = append(warnings, Warning{
				Summary: fmt.Sprintf("Cluster %q is registered twice", clusters.Workload.Name()),
				Detail:  fmt.Sprintf("Secret %s/%s on %s registers the same cluster (UID %s) as %q at another address, %s. Both work; what one deploys, the other does not know of.", other.GetNamespace(), other.GetName(), where, uid, called, secretField(other, "server")),
			})
		}
	}
	return warnings, nil
}
