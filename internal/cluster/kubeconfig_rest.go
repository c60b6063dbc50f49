package cluster

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// execExtension is the cluster extension that a kubeconfig reserves for the configuration of an exec plugin.
const execExtension = "client.authentication.k8s.io/exec"

// RESTConfig turns the entry of a name into a client configuration, and gives the context that it took ("" for host).
// It reads the files the entry names, and sends nothing. Every error is a *Problem, or several joined, that names the
// entry, the file, the cause and the remedy; it never falls back to anything the entry does not name (X1). Client-side
// rate limiting is off: the server's priority and fairness is the limit.
func (e Entry) RESTConfig(name string) (*rest.Config, string, error) {
	from, found, err := e.describe(name)
	if err != nil {
		return nil, "", err
	}
	if err := from.complete(found); err != nil {
		return nil, "", err
	}
	config, err := from.restConfig(found)
	return config, found.context, err
}

// describe gives the connection of the entry of a name as it is written, and where that is.
func (e Entry) describe(name string) (from origin, found *connection, err error) {
	label := "clusters[" + quoted(name) + "]"
	if problems := e.Validate(); len(problems) > 0 {
		return origin{}, nil, labelled(label, problems)
	}
	from, content := origin{label: label, attribute: "kubeconfig"}, []byte(e.Kubeconfig)
	switch {
	case strings.TrimSpace(e.Host) != "":
		found, err = e.hostConnection()
		return origin{label: label, attribute: "host", host: true}, found, err
	case strings.TrimSpace(e.KubeconfigPath) != "":
		if from, content, err = readKubeconfig(label, e.KubeconfigPath); err != nil {
			return from, nil, err
		}
	}
	found, err = from.parse(content, e.Context)
	return from, found, err
}

func labelled(label string, problems []Problem) error {
	failures := make([]error, len(problems))
	for i, problem := range problems {
		problem.Summary = label + ": " + problem.Summary
		failures[i] = &problem
	}
	if len(failures) == 1 {
		return failures[0]
	}
	return errors.Join(failures...)
}

// hostConnection is a connection described by attributes, which Validate has found well formed.
func (e Entry) hostConnection() (*connection, error) {
	found := &connection{
		cluster: clientcmdv1.Cluster{
			Server: e.Host, TLSServerName: e.TLSServerName, InsecureSkipTLSVerify: e.Insecure, ProxyURL: e.ProxyURL,
			DisableCompression: e.disableCompression,
		},
		user: clientcmdv1.AuthInfo{Token: e.Token}, bothCredentials: e.bothCredentials,
	}
	if e.ClientCertificate != "" {
		found.user.ClientCertificateData, found.user.ClientKeyData = []byte(e.ClientCertificate), []byte(e.ClientKey)
	}
	if e.ClusterCACertificate != "" {
		ca, err := parseCA(e.ClusterCACertificate)
		if err != nil {
			return nil, err
		}
		found.cluster.CertificateAuthorityData = ca
	}
	if e.Exec != nil {
		plugin := &clientcmdv1.ExecConfig{
			APIVersion: e.Exec.APIVersion, Command: e.Exec.Command, Args: e.Exec.Args, InteractiveMode: clientcmdv1.NeverExecInteractiveMode,
		}
		for _, name := range sortedKeys(e.Exec.Env) {
			plugin.Env = append(plugin.Env, clientcmdv1.ExecEnvVar{Name: name, Value: e.Exec.Env[name]})
		}
		found.user.Exec = plugin
	}
	return found, nil
}

// field names a field of the connection in the words of whoever wrote it.
func (o origin) field(found *connection, attribute, ofCluster, ofUser string) string {
	switch {
	case o.host:
		return attribute
	case ofCluster != "":
		return ofCluster + " of cluster " + quoted(found.clusterName) + " in " + o.String()
	}
	return ofUser + " of user " + quoted(found.userName) + " in " + o.String()
}

// at is the attribute to point at: a host entry's own, otherwise the one that holds the kubeconfig.
func (o origin) at(attribute string) string {
	if o.host {
		return attribute
	}
	return o.attribute
}

// complete checks a connection and reads the files that it names into it.
func (o origin) complete(found *connection) error {
	if err := o.completeCluster(found); err != nil {
		return err
	}
	return o.completeUser(found)
}

// completeCluster is complete for all but the credential.
func (o origin) completeCluster(found *connection) error {
	cluster := &found.cluster
	server, err := parseServer(cluster.Server)
	if err != nil {
		subject := o.field(found, "host", "server", "")
		if strings.TrimSpace(cluster.Server) == "" {
			return o.fail("the cluster has no server", "%s is empty. berth never dials a default host. Set it to the https URL of the API server.", subject)
		}
		return o.fail("server is not the address of an API server", "%s is %s, which %s. Set it to the https URL of the API server, such as https://203.0.113.10:6443.",
			subject, quoted(maskURL(cluster.Server)), err)
	}
	cluster.Server = server
	if cluster.ProxyURL != "" {
		if _, err := parseProxy(cluster.ProxyURL); err != nil {
			return o.failAt(o.at("proxy_url"), "the proxy is not a URL", "%s is %s, which %s. Set it to a URL with scheme http, https or socks5.",
				o.field(found, "proxy_url", "proxy-url", ""), quoted(maskURL(cluster.ProxyURL)), err)
		}
	}
	return o.completeCA(found)
}

func (o origin) completeCA(found *connection) error {
	cluster := &found.cluster
	subject := o.field(found, "cluster_ca_certificate", "certificate-authority-data", "")
	if cluster.CertificateAuthority != "" && len(cluster.CertificateAuthorityData) == 0 {
		data, path, err := o.inline("certificate-authority", cluster.CertificateAuthority)
		if err != nil {
			return err
		}
		cluster.CertificateAuthorityData = data
		subject = "certificate-authority " + quoted(path) + " of cluster " + quoted(found.clusterName)
	}
	cluster.CertificateAuthority = ""
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil
	}
	if cluster.InsecureSkipTLSVerify {
		return o.failAt(o.at("insecure"), "a CA and insecure-skip-tls-verify exclude each other",
			"Cluster %s in %s has a certificate authority and insecure-skip-tls-verify: true, which turns the verification off. Remove insecure-skip-tls-verify.", quoted(found.clusterName), o)
	}
	if err := checkCA(cluster.CertificateAuthorityData); err != nil {
		if _, twice := parseCA(string(cluster.CertificateAuthorityData)); twice == nil {
			err = errors.New("is in base64 twice")
		}
		return o.failAt(o.at("cluster_ca_certificate"), "the CA is not a PEM certificate",
			"%s %s. Set it to the PEM certificate of the authority that signed the API server's certificate%s.", subject, err, inBase64(o.host, "certificate-authority-data"))
	}
	return nil
}

func inBase64(host bool, field string) string {
	if host {
		return ""
	}
	return " (once in base64, where the field is " + field + ")"
}

// inline reads a file that a kubeconfig names. Relative paths count from the folder of the kubeconfig file, as kubectl
// has it; content has no folder, so there they are refused. The path that was read is returned too.
func (o origin) inline(field, path string) ([]byte, string, error) {
	path, err := o.resolve(field, path)
	if err != nil {
		return nil, "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		reason, remedy := fileTrouble(path, err)
		return nil, "", o.fail("the "+field+" file "+reason, "%s in %s names %s, which %s. %s, or put the content into the kubeconfig.",
			field, o, quoted(path), strings.TrimPrefix(reason, "file "), remedy)
	}
	return data, path, nil
}

func (o origin) resolve(field, path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if o.file == "" {
		return "", o.fail("a relative path in a kubeconfig that is not a file",
			"%s is %s, but the kubeconfig was given as content, so there is no folder to look in. Use an absolute path, put the content in its place (kubectl config view --raw --flatten), or set kubeconfig_path.", field, quoted(path))
	}
	return filepath.Join(filepath.Dir(o.file), path), nil
}

// restConfig puts a complete connection into client-go's terms.
func (o origin) restConfig(found *connection) (*rest.Config, error) {
	cluster, user := found.cluster, found.user
	config := &rest.Config{
		Host:               cluster.Server,
		QPS:                -1,
		DisableCompression: cluster.DisableCompression,
		BearerToken:        user.Token,
		BearerTokenFile:    user.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName, CAData: cluster.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
		Impersonate: rest.ImpersonationConfig{
			UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra,
		},
	}
	if cluster.ProxyURL != "" {
		proxy, err := parseProxy(cluster.ProxyURL)
		if err != nil {
			return nil, err
		}
		config.Proxy = http.ProxyURL(proxy)
	}
	if user.Exec != nil {
		plugin := clientcmdapi.ExecConfig{
			Command: user.Exec.Command, Args: user.Exec.Args, APIVersion: user.Exec.APIVersion, InstallHint: user.Exec.InstallHint,
			ProvideClusterInfo: user.Exec.ProvideClusterInfo,
			// An apply has nobody to answer questions, and its standard input belongs to the runner.
			InteractiveMode: clientcmdapi.NeverExecInteractiveMode, StdinUnavailable: true,
		}
		for _, variable := range user.Exec.Env {
			plugin.Env = append(plugin.Env, clientcmdapi.ExecEnvVar{Name: variable.Name, Value: variable.Value})
		}
		for _, extension := range cluster.Extensions {
			if extension.Name == execExtension {
				plugin.Config = &runtime.Unknown{Raw: extension.Extension.Raw, ContentType: runtime.ContentTypeJSON}
			}
		}
		quiet, err := quietPlugin(plugin)
		if err != nil {
			return nil, o.failAt(o.at("exec"), "the exec plugin cannot be run", "The plugin runs under this provider's own program, whose path the system does not tell: %s. Run the provider from a file that stays.", err)
		}
		config.ExecProvider = quiet
	}
	return config, nil
}

// completePlugin checks an exec plugin and finds its program.
func (o origin) completePlugin(found *connection) error {
	plugin := found.user.Exec
	who := "exec"
	if !o.host {
		who = "exec of user " + quoted(found.userName) + " in " + o.String()
	}
	if plugin.Command == "" {
		return o.failAt(o.at("exec.command"), "the exec plugin has no command", "%s has no command. Set it to the name of the plugin on the PATH, or to its path.", who)
	}
	if !slices.Contains(execAPIVersions, plugin.APIVersion) {
		remedy := "Set it to the version that the plugin speaks"
		if strings.HasSuffix(plugin.APIVersion, "/v1alpha1") {
			remedy = "v1alpha1 was removed in Kubernetes 1.24: update the plugin and write the kubeconfig again with it; it then has"
		}
		return o.failAt(o.at("exec.api_version"), "the exec plugin has an unknown apiVersion", "%s has apiVersion %s. %s: %s.", who, quoted(plugin.APIVersion), remedy, listOr(execAPIVersions))
	}
	if o.offline {
		return nil // the plugin runs wherever the kubeconfig ends up: its command and mode stay as they are written
	}
	if plugin.InteractiveMode == clientcmdv1.AlwaysExecInteractiveMode {
		return o.failAt(o.at("exec"), "the exec plugin wants to ask questions",
			"%s has interactiveMode Always, but nobody answers questions during an apply. Use a credential that needs none: interactiveMode Never or IfAvailable.", who)
	}
	plugin.InteractiveMode = clientcmdv1.NeverExecInteractiveMode
	if strings.ContainsAny(plugin.Command, `/\`) && !filepath.IsAbs(plugin.Command) {
		if o.host {
			// An attribute is relative to the working folder, like every path in a configuration.
			if absolute, err := filepath.Abs(plugin.Command); err == nil {
				plugin.Command = absolute
			}
		} else {
			command, err := o.resolve("the command of exec", plugin.Command)
			if err != nil {
				return err
			}
			plugin.Command = command
		}
	}
	if _, err := exec.LookPath(plugin.Command); err != nil {
		hint := ""
		if plugin.InstallHint != "" {
			hint = " Its kubeconfig says: " + brief(redact(plugin.InstallHint))
		}
		if filepath.IsAbs(plugin.Command) {
			return o.failAt(o.at("exec.command"), "the exec plugin cannot be run",
				"%s names the program %s, which is not there or not executable. Install it on the machine that runs the apply, or correct the path.%s", who, quoted(plugin.Command), hint)
		}
		return o.failAt(o.at("exec.command"), "the exec plugin is not on the PATH",
			"%s names the program %s, which is in no folder of the PATH. Install it on the machine that runs the apply, or give its full path.%s", who, quoted(plugin.Command), hint)
	}
	return nil
}
