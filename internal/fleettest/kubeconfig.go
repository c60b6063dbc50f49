package fleettest

import (
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is what a kubeconfig with one context says. Tests take one from a cluster, change what they test, and
// use Content or Write.
type Kubeconfig struct {
	// Name is the name of the context and of the cluster; the user is <name>-user.
	Name      string
	Server    string
	CA        []byte
	Insecure  bool
	ProxyURL  string
	Namespace string

	TLSServerName string

	// The credentials; none of them makes an anonymous client.
	ClientCertificate, ClientKey []byte
	Token                        string
	Exec                         *clientcmdapi.ExecConfig
}

// AdminKubeconfig has the administrator's client certificate and leads straight to the API server.
func (c *Cluster) AdminKubeconfig() Kubeconfig {
	return Kubeconfig{Name: c.Name(), Server: c.directServer(), CA: c.ca.pem, ClientCertificate: c.admin.cert, ClientKey: c.admin.key}
}

// UserKubeconfig has the client certificate of a user of the given name and groups, who may do only what RBAC on
// the cluster says. It leads straight to the API server.
func (c *Cluster) UserKubeconfig(t testing.TB, user string, groups ...string) Kubeconfig {
	t.Helper()
	return c.ExpiringKubeconfig(t, inTenYears(), user, groups...)
}

// ExpiringKubeconfig is UserKubeconfig with a certificate that expires, or has expired, at the given time.
func (c *Cluster) ExpiringKubeconfig(t testing.TB, expires time.Time, user string, groups ...string) Kubeconfig {
	t.Helper()
	issued, err := c.ca.issue(pkix.Name{CommonName: user, Organization: groups}, false, expires)
	if err != nil {
		t.Fatal(err)
	}
	config := c.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey = issued.cert, issued.key
	return config
}

// ServiceAccountKubeconfig has an hour's token of the ServiceAccount "namespace/name", which is created, with its
// namespace, where it does not exist. It leads straight to the API server.
func (c *Cluster) ServiceAccountKubeconfig(t testing.TB, account string) Kubeconfig {
	t.Helper()
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		t.Fatalf("fleettest: service account %q: want namespace/name", account)
	}
	ctx, core := t.Context(), c.client.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = core.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	seconds := int64(time.Hour / time.Second)
	token, err := core.ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := c.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey = nil, nil
	config.Token = token.Status.Token
	return config
}

// KubeconfigFor is the path of a kubeconfig file with the token of the ServiceAccount "namespace/name"; see
// ServiceAccountKubeconfig.
func (c *Cluster) KubeconfigFor(t testing.TB, account string) string {
	t.Helper()
	return c.ServiceAccountKubeconfig(t, account).Write(t)
}

// Content is the kubeconfig as YAML.
func (k Kubeconfig) Content() string {
	content, err := mergeKubeconfigs([]Kubeconfig{k})
	if err != nil {
		panic(err) // only a scheme without the type makes encoding fail
	}
	return string(content)
}

// Write writes the kubeconfig to a file that lives as long as the test, and returns its path.
func (k Kubeconfig) Write(t testing.TB) string {
	t.Helper()
	path, err := k.write(filepath.Join(t.TempDir(), "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (k Kubeconfig) write(path string) (string, error) {
	if err := os.WriteFile(path, []byte(k.Content()), 0o600); err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return path, nil
}

// mergeKubeconfigs encodes the kubeconfigs as one, the first one's context being the current one.
func mergeKubeconfigs(configs []Kubeconfig) ([]byte, error) {
	merged := clientcmdapi.NewConfig()
	for i, k := range configs {
		if i == 0 {
			merged.CurrentContext = k.Name
		}
		user := k.Name + "-user"
		merged.Clusters[k.Name] = &clientcmdapi.Cluster{
			Server:                   k.Server,
			CertificateAuthorityData: k.CA,
			InsecureSkipTLSVerify:    k.Insecure,
			TLSServerName:            k.TLSServerName,
			ProxyURL:                 k.ProxyURL,
		}
		merged.AuthInfos[user] = &clientcmdapi.AuthInfo{
			ClientCertificateData: k.ClientCertificate,
			ClientKeyData:         k.ClientKey,
			Token:                 k.Token,
			Exec:                  k.Exec,
		}
		merged.Contexts[k.Name] = &clientcmdapi.Context{Cluster: k.Name, AuthInfo: user, Namespace: k.Namespace}
	}
	return clientcmd.Write(*merged)
}
