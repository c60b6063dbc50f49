package cluster

import (
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdlatest "k8s.io/client-go/tools/clientcmd/api/latest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// KubeconfigParts is what a kubeconfig is built of: Host with its trust and one credential, as in an Entry. Name is
// that of its one cluster, user and context; Namespace, which may be empty, is the context's.
type KubeconfigParts struct {
	Name      string
	Namespace string
	Entry
}

// MinimizeKubeconfig reduces a kubeconfig to one context (its current-context where none is named), with that context's
// cluster and user and nothing else (I104). What the context needs is kept and files are read into it, so the result
// works anywhere and holds the credentials of one cluster only; an exec plugin stays an exec plugin. The same input
// gives the same bytes: neither the clock nor the PATH is looked at, so an expired token passes. Errors are a *Problem.
func MinimizeKubeconfig(content, context string) ([]byte, error) {
	from := origin{label: "kubeconfig", attribute: "kubeconfig", offline: true}
	found, err := from.parse([]byte(content), context)
	if err != nil {
		return nil, err
	}
	return from.write(found)
}

// BuildKubeconfig writes a kubeconfig with one cluster, one user and one context, which is the current one (I104). The
// same input gives the same bytes. Errors are a *Problem or several joined, as from Entry.Validate.
func BuildKubeconfig(parts KubeconfigParts) ([]byte, error) {
	from := origin{label: "kubeconfig", attribute: "host", host: true, offline: true}
	if parts.Name == "" {
		return nil, from.failAt("name", "a kubeconfig needs a name", "Its cluster, user and context are called by it. Set name, for example to the name of the cluster.")
	}
	if parts.Kubeconfig != "" || parts.KubeconfigPath != "" {
		return nil, from.failAt("kubeconfig", "a kubeconfig is not built from another", "It is built from host, trust and one credential. To reduce an existing one, give its content alone.")
	}
	if problems := parts.Validate(); len(problems) > 0 {
		return nil, labelled(from.label, problems)
	}
	found, err := parts.hostConnection()
	if err != nil {
		return nil, err
	}
	found.context, found.clusterName, found.userName, found.namespace = parts.Name, parts.Name, parts.Name, parts.Namespace
	return from.write(found)
}

// write completes a connection and renders it.
func (o origin) write(found *connection) ([]byte, error) {
	if err := o.complete(found); err != nil {
		return nil, err
	}
	found.user.TokenFile = "" // its content is in Token by now
	found.user.Extensions = nil
	var kept []clientcmdv1.NamedExtension
	for _, extension := range found.cluster.Extensions {
		if extension.Name == execExtension && found.user.Exec != nil {
			kept = append(kept, extension)
		}
	}
	found.cluster.Extensions = kept
	external := &clientcmdv1.Config{
		CurrentContext: found.context,
		Clusters:       []clientcmdv1.NamedCluster{{Name: found.clusterName, Cluster: found.cluster}},
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: found.userName, AuthInfo: found.user}},
		Contexts: []clientcmdv1.NamedContext{{Name: found.context, Context: clientcmdv1.Context{
			Cluster: found.clusterName, AuthInfo: found.userName, Namespace: found.namespace,
		}}},
	}
	var internal clientcmdapi.Config
	if err := clientcmdlatest.Scheme.Convert(external, &internal, nil); err != nil {
		return nil, o.fail("the kubeconfig cannot be written", "client-go could not convert it. Report this as a bug of berth.")
	}
	return clientcmd.Write(internal)
}
