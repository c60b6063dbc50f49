package provider_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// reaches fails the test unless a kubeconfig leads to the cluster, and returns it decoded.
func reaches(t *testing.T, c *fleettest.Cluster, content any) *clientcmdapi.Config {
	t.Helper()
	raw := []byte(fmt.Sprint(content))
	config, err := clientcmd.RESTConfigFromKubeConfig(raw)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, raw)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the cluster that the kubeconfig leads to", found.UID, c.UID())
	decoded, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// several is a kubeconfig with the contexts "mine", of the cluster, and "foreign", with a credential of its own.
func several(t *testing.T, c *fleettest.Cluster, current string) string {
	t.Helper()
	config := c.AdminKubeconfig()
	config.Name = "mine"
	loaded, err := clientcmd.Load([]byte(config.Content()))
	if err != nil {
		t.Fatal(err)
	}
	loaded.Clusters["foreign"] = &clientcmdapi.Cluster{Server: "https://foreign.example.com"}
	loaded.AuthInfos["foreign-user"] = &clientcmdapi.AuthInfo{Token: "foreign-t0ken"}
	loaded.Contexts["foreign"] = &clientcmdapi.Context{Cluster: "foreign", AuthInfo: "foreign-user"}
	loaded.CurrentContext = current
	content, err := clientcmd.Write(*loaded)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A kubeconfig is reduced to one context, and the result works (I104).
func TestKubeconfigMinimizes(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		c := plainCluster(t)
		w := tofutest.New(t, tofutest.Options{Runner: runner})
		for current, call := range map[string]string{
			"mine":    `provider::berth::kubeconfig(file("all.yaml"))`,
			"foreign": `provider::berth::kubeconfig({ content = file("all.yaml"), context = "mine" })`,
		} {
			w.Write("all.yaml", several(t, c, current))
			w.Write("main.tf", calling(call))
			w.MustApply()
			content := w.Output("it")
			found := reaches(t, c, content)
			same(t, "contents", fmt.Sprint(len(found.Clusters), len(found.AuthInfos), len(found.Contexts), found.CurrentContext), "1 1 1mine")
			if strings.Contains(fmt.Sprint(content), "foreign") {
				t.Errorf("something of another context is left:\n%s", content)
			}
			w.Write("main.tf", calling(strings.Replace(call, `file("all.yaml")`, `provider::berth::kubeconfig({ content = file("all.yaml"), context = "mine" })`, 1)))
			w.PlanIsEmpty()
		}
	})
}

// A kubeconfig is built of its parts, also of some that are known only at the apply, and works with each credential
// (I104).
func TestKubeconfigBuilds(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		c := plainCluster(t)
		admin := c.AdminKubeconfig()
		team := namespace(t, c, nil)
		account := c.ServiceAccountKubeconfig(t, team+"/robot")
		c.Kubectl(t, "create", "clusterrolebinding", unique("robot"), "--clusterrole=cluster-admin", "--serviceaccount="+team+":robot")
		plugin := script(t, `echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$ROBOT\"}}"`)
		w := tofutest.New(t, tofutest.Options{Runner: runner})
		for kind, credential := range map[string]string{
			"certificate": fmt.Sprintf("client_certificate = %q, client_key = %q, token = null", admin.ClientCertificate, admin.ClientKey),
			"token":       fmt.Sprintf("token = %q", account.Token),
			"exec":        fmt.Sprintf("exec = { api_version = \"client.authentication.k8s.io/v1\", command = %q, args = [], env = { ROBOT = %q } }", plugin, account.Token),
		} {
			w.Write("main.tf", fmt.Sprintf("resource \"terraform_data\" \"host\" {\ninput = %q\n}\n", c.Server())+
				calling(fmt.Sprintf(`provider::berth::kubeconfig({ name = "built", namespace = "team", host = terraform_data.host.output, cluster_ca_certificate = %q, %s })`, admin.CA, credential)))
			w.MustApply()
			found := reaches(t, c, w.Output("it"))
			same(t, kind, fmt.Sprint(found.CurrentContext, "/", found.Contexts["built"].Cluster, "/", found.Contexts["built"].Namespace), "built/built/team")
			w.PlanIsEmpty()
		}
	})
}

// What is wrong is told by the names of the parts, never by their values (X9).
func TestKubeconfigRefusals(t *testing.T) {
	t.Parallel()
	w := tofutest.New(t, tofutest.Options{})
	w.Write("all.yaml", several(t, plainCluster(t), "foreign"))
	for argument, details := range map[string][]string{
		`{ content = file("all.yaml"), context = "nine" }`: {`kubeconfig: no such context: There is no context "nine"`, `Its contexts: "mine", "foreign"`},
		`{ content = file("all.yaml"), contxt = "mine" }`:  {`an object with content has no attribute "contxt"; it has content, context`},
		`""`:                                 {`kubeconfig: the kubeconfig is empty`},
		`["s3cret"]`:                         {`it has to be the content of a kubeconfig, an object \{ content, context \} or an object \{ name, host, … \}, not a list`},
		`7`:                                  {`it has to be .*, not a number`},
		`"s3cret: [s3cret"`:                  {`the kubeconfig is not YAML`},
		`{ host = "https://a" }`:             {`kubeconfig: a kubeconfig needs a name`},
		`{ name = "a", host = "https://a" }`: {`kubeconfig: host needs a credential`},
		`{ name = "a", host = "http://a", token = "s3cret" }`:                         {`host is not the address of an API server`, `http, which would send the credential in clear text`},
		`{ name = "a", host = "https://a", token = "s3cret", tokn = "s3cret" }`:       {`an object with host has no attribute "tokn"; it has name, namespace, host`},
		`{ name = "a", host = "https://a", token = ["s3cret"] }`:                      {`token has to be a string, not a list`},
		`{ name = "a", host = "https://a", token = "s3cret", insecure = "s3cret" }`:   {`insecure has to be true or false, not a string`},
		`{ name = "a", host = "https://a", token = "s3cret", client_key = "s3cret" }`: {`The entry has more than one credential`},
		`{ name = "a", host = "https://a", exec = { command = "aws", env = { A = ["s3cret"] }, flags = [] } }`: {
			`exec has no attribute "exec.flags"; it has api_version, command, args, env`, `exec.env.A has to be a string, not a list`,
		},
		`{ name = "a", host = "https://a", exec = { api_version = "v1", command = "aws", args = [["s3cret"]] } }`: {`exec.args\[0\] has to be a string, not a list`},
	} {
		w.Write("main.tf", calling("provider::berth::kubeconfig("+argument+")"))
		result := w.Plan()
		result.Error(t, "function", details...)
		for _, found := range result.Diagnostics {
			if strings.Contains(found.Detail, "s3cret") {
				t.Errorf("%s\nshows a value of %s", found, argument)
			}
		}
	}
}
