package argocd

import (
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// What an import takes for arguments is what somebody set, and not what Argo CD, berth or kubectl put there (I100).
func TestReadSecret(t *testing.T) {
	t.Parallel()
	secret := secretWith(map[string]string{"name": "edge", "server": "https://a", "project": "shop", "namespaces": "a,b", "clusterResources": "true", "shard": "3"})
	secret.SetLabels(map[string]string{
		LabelSecretType: SecretTypeCluster, "tier": "edge", "app.kubernetes.io/managed-by": "berth", "berth.dev/owner": "x", LabelOrg: "acme", LabelProvider: "aws", LabelFlavor: "eks", LabelRegion: "eu-1",
	})
	secret.SetAnnotations(map[string]string{
		"managed-by": "argocd.argoproj.io", "argocd.argoproj.io/refresh": "now", "kubectl.kubernetes.io/last-applied-configuration": "{}", "berth.dev/cluster-uid": "u", "users.berth.dev/x": "y", "example.com/contact": "ops",
	})
	var spec Spec
	spec.readSecret(secret)
	want(t, "read", spec, Spec{
		Namespace: "argocd", SecretName: "cluster-edge", Org: "acme", Provider: "aws", Flavor: "eks", Region: "eu-1", Labels: map[string]string{"tier": "edge"},
		Annotations: map[string]string{"example.com/contact": "ops"}, Project: "shop", Namespaces: []string{"a", "b"}, ClusterResources: new(true), Shard: new(int64(3)),
	})
	// An annotation of that name which is somebody's own.
	secret.SetAnnotations(map[string]string{"managed-by": "me"})
	spec = Spec{}
	spec.readSecret(secret)
	want(t, "annotations", spec.Annotations, map[string]string{"managed-by": "me"})
	bare := Spec{}
	bare.readSecret(secretWith(map[string]string{"name": "edge", "shard": "x", "clusterResources": "maybe"}))
	want(t, "of a bare one", bare, Spec{Namespace: "argocd", SecretName: "cluster-edge"})
}

// A root is one that was committed where another Application keeps it (I7).
func TestReadRootArguments(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "edge", Namespace: "argocd", AppOfApps: &AppOfApps{RepoURL: "https://git.example.com/a.git", Revision: "main", Path: "p", Project: "default"}}
	live := spec.rootObject().Desired
	want(t, "applied", readRootArguments(live), spec.AppOfApps)
	live.SetAnnotations(map[string]string{AnnotationTracking: "registry:argoproj.io/Application:argocd/registry-edge"})
	committed := *spec.AppOfApps
	committed.Commit = true
	want(t, "committed", readRootArguments(live), &committed)
	want(t, "of nothing", readRootArguments(Applications.New("argocd", "registry-edge")), &AppOfApps{})
}

// What the state holds is the registration's; what was only asked for is not (X6).
func TestHas(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "edge", Namespace: "argocd", SecretName: "cluster-edge", KubeconfigNamespace: "kept", StoreKubeconfig: true, AppOfApps: &AppOfApps{}}
	objects := map[string]func() bool{
		"secret":     func() bool { return spec.has(spec.bareSecret()) },
		"kubeconfig": func() bool { return spec.has(spec.bareKubeconfig()) },
		"root":       func() bool { return spec.has(spec.rootObject()) },
	}
	has := func() map[string]bool {
		found := map[string]bool{}
		for name, ask := range objects {
			found[name] = ask()
		}
		return found
	}
	want(t, "all", has(), map[string]bool{"secret": true, "kubeconfig": true, "root": true})
	spec.AppOfApps.Commit, spec.StoreKubeconfig = true, false
	want(t, "a committed root, no kubeconfig", has(), map[string]bool{"secret": true, "kubeconfig": false, "root": false})
	spec.AppOfApps.Commit, spec.StoreKubeconfig, spec.InCluster = false, true, true
	want(t, "of the management cluster itself", has(), map[string]bool{"secret": false, "kubeconfig": false, "root": true})
	moved := spec
	moved.InCluster, moved.KubeconfigNamespace = false, "elsewhere"
	want(t, "a kubeconfig elsewhere", spec.has(moved.bareKubeconfig()), false)
	want(t, "somebody else's", spec.has(Spec{Namespace: "argocd", SecretName: "other"}.bareSecret()), false)
	want(t, "SameServer is what inItsWords goes by", inItsWords("https://a:443", secretWith(map[string]string{"server": "https://A/"})), "https://A/")
	want(t, "none", inItsWords("https://a", cluster.Secrets.New("argocd", "x")), "https://a")
}
