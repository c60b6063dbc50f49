package cluster

import (
	"fmt"
	"strings"
	"time"
)

// shortestStored is how long a credential must still last to be worth storing: whoever stores it uses it for good.
const shortestStored = 24 * time.Hour

// Stored is the connection of a cluster with an inline credential, for somebody else to store, such as Argo CD or Kueue. One
// that somebody else made may have a token and a certificate: client-go sends both, and the API server takes the one that it
// knows.
type Stored struct {
	Server             string
	CAData             []byte // PEM
	Insecure           bool   // the API server's certificate is not verified
	TLSServerName      string
	ProxyURL           string
	DisableCompression bool

	Token             string
	CertData, KeyData []byte // PEM

	// Expires is when the credential ends: the `exp` of a JWT, the NotAfter of a certificate; zero when it does not say.
	Expires time.Time
}

// StoredCredential is the connection of the entry with its own bearer token or client certificate, for somebody else to
// store (I12). Of a kubeconfig it is the context's cluster and user (I14), and nothing but what the connection needs
// (I104). It sends nothing. A credential that only works here, or not for long, is a *Problem about `access`.
func (c *Cluster) StoredCredential() (Stored, error) {
	from, found, err := c.entry.describe(c.name)
	if err != nil {
		return Stored{}, err
	}
	if problem := c.unstorable(from, found); problem != nil {
		return Stored{}, problem
	}
	if err := from.complete(found); err != nil {
		return Stored{}, err
	}
	stored := storedConnection(found)
	stored.Token, stored.CertData, stored.KeyData = found.user.Token, found.user.ClientCertificateData, found.user.ClientKeyData
	if stored.Token != "" {
		stored.Expires, _ = tokenExpiry(stored.Token)
		return stored, nil
	}
	certificate, err := firstCertificate(stored.CertData)
	if err != nil {
		return Stored{}, err
	}
	if stored.Expires = certificate.NotAfter; time.Until(stored.Expires) < shortestStored {
		return Stored{}, c.endsSoon("client certificate", from, stored.Expires)
	}
	return stored, nil
}

// StoredConnection is the connection of the entry without a credential: where the API server is and how it is verified.
// It goes with the token of a ServiceAccount. It works with every kind of entry, and sends nothing.
func (c *Cluster) StoredConnection() (Stored, error) {
	from, found, err := c.entry.describe(c.name)
	if err != nil {
		return Stored{}, err
	}
	if err := from.completeCluster(found); err != nil {
		return Stored{}, err
	}
	return storedConnection(found), nil
}

func storedConnection(found *connection) Stored {
	cluster := found.cluster
	return Stored{
		Server: cluster.Server, CAData: cluster.CertificateAuthorityData, Insecure: cluster.InsecureSkipTLSVerify,
		TLSServerName: cluster.TLSServerName, ProxyURL: cluster.ProxyURL, DisableCompression: cluster.DisableCompression,
	}
}

// unstorable says why the credential of a connection works on this machine alone; nil where it doesn't.
func (c *Cluster) unstorable(from origin, found *connection) *Problem {
	cluster, user := found.cluster, found.user
	who := from.label
	if !from.host {
		who = "User " + quoted(found.userName) + " in " + from.String() + " of " + from.label
	}
	switch {
	case user.Exec != nil:
		return c.cannotStore("it comes from an exec plugin", fmt.Sprintf("%s has the exec plugin %s, which runs on this machine, signed in as whoever runs it.", who, quoted(user.Exec.Command)))
	case user.AuthProvider != nil:
		return c.cannotStore("it comes from an auth-provider plugin", fmt.Sprintf("%s has the auth-provider %s, which works only where its cloud's command line is signed in.", who, quoted(user.AuthProvider.Name)))
	case user.TokenFile != "":
		return c.cannotStore("it is in a token file", fmt.Sprintf("%s has the tokenFile %s, a file of this machine whose content changes.", who, quoted(user.TokenFile)))
	case user.Username != "" || user.Password != "":
		return c.cannotStore("it is a user name and password", who+" has a username and password, which API servers have refused since Kubernetes 1.19.")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0:
		return c.cannotStore("it acts as another user", who+" acts as another user (as, as-uid, as-groups, as-user-extra), and only the credential itself could be stored, which may do other things.")
	}
	for _, part := range []struct {
		field, path string
		data        []byte
	}{
		{"client-certificate", user.ClientCertificate, user.ClientCertificateData},
		{"client-key", user.ClientKey, user.ClientKeyData},
		{"certificate-authority", cluster.CertificateAuthority, cluster.CertificateAuthorityData},
	} {
		if part.path == "" || len(part.data) > 0 {
			continue
		}
		where := who
		if part.field == "certificate-authority" {
			where = "Cluster " + quoted(found.clusterName) + " in " + from.String() + " of " + from.label
		}
		return c.cannotStore(part.field+" is the path of a file", fmt.Sprintf("%s has the %s %s, a file of this machine. `kubectl config view --raw --flatten` writes a kubeconfig with the content in its place (%s-data).",
			where, part.field, quoted(part.path), part.field))
	}
	token := strings.TrimSpace(user.Token)
	if token == "" && len(user.ClientCertificateData)+len(user.ClientKeyData) == 0 {
		return c.cannotStore("there is none", who+" has neither a token nor a client certificate.")
	}
	return c.signIn(from, token)
}

// signIn refuses the tokens with which somebody is signed in to a cloud: they end within minutes or hours.
func (c *Cluster) signIn(from origin, token string) *Problem {
	switch {
	case strings.HasPrefix(token, "k8s-aws-v1."):
		return c.cannotStore("it is a sign-in token of AWS", "The token of "+from.label+" is one that `aws eks get-token` makes, and EKS takes it for 15 minutes.")
	case strings.HasPrefix(token, "ya29."):
		return c.cannotStore("it is a sign-in token of Google Cloud", "The token of "+from.label+" is an access token of a Google account, which lasts about an hour.")
	}
	if expiry, known := tokenExpiry(token); known && time.Until(expiry) < shortestStored {
		return c.endsSoon("token", from, expiry)
	}
	return nil
}

func (c *Cluster) endsSoon(what string, from origin, when time.Time) *Problem {
	verb := "ends"
	if time.Now().After(when) {
		verb = "ended"
	}
	return c.cannotStore("it "+verb+" at "+moment(when), fmt.Sprintf("The %s of %s %s at %s, and what is stored has to last for more than a day.", what, from.label, verb, moment(when)))
}

func (c *Cluster) cannotStore(why, detail string) *Problem {
	return &Problem{
		Attribute: "access", Summary: fmt.Sprintf("The credential of cluster %q cannot be stored: %s", c.name, why),
		Detail: fmt.Sprintf("refusing: %s Argo CD needs a credential that it can store (Kueue, too): a lasting token or client certificate, written out. "+
			"Create a berth_cluster_access on the cluster and set access to its id, or give clusters[%q] such a credential.", detail, c.name),
	}
}

// entry is the connection as an entry of `clusters`.
func (s Stored) entry() Entry {
	return Entry{
		Host: s.Server, ClusterCACertificate: string(s.CAData), Insecure: s.Insecure, TLSServerName: s.TLSServerName, ProxyURL: s.ProxyURL,
		Token: s.Token, ClientCertificate: string(s.CertData), ClientKey: string(s.KeyData), disableCompression: s.DisableCompression, bothCredentials: true,
	}
}

// Kubeconfig is the connection as a kubeconfig with one cluster, user and context of a name, and nothing else (I104). The
// same connection gives the same bytes. Errors are as from BuildKubeconfig.
func (s Stored) Kubeconfig(name string) ([]byte, error) {
	return BuildKubeconfig(KubeconfigParts{Name: name, Entry: s.entry()})
}

// Cluster is a cluster of its own that is reached by the connection, to try it out: with the settings of another one, and
// like it for public addresses only, but with no knowledge of it, no snapshot and no pinned UID. Whether it is the same
// cluster, its UID tells (I24). The error says what is wrong with the connection itself; nothing is sent.
func (s Stored) Cluster(name string, like *Cluster) (*Cluster, error) {
	c := newCluster(name, s.entry(), like.settings)
	c.reach.public.Store(like.reach.public.Load())
	c.reach.resolver, c.reach.environment = like.reach.resolver, like.reach.environment
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, nil
}
