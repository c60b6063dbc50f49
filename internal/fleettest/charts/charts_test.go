package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/getter"
	helm "helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/repo"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// render installs the chart into no cluster.
func render(t *testing.T, folder, name, namespace string, values map[string]any) (*release.Release, error) {
	t.Helper()
	loaded, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(new(action.Configuration))
	install.ReleaseName, install.Namespace = name, namespace
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
	return install.Run(loaded, values)
}

// objects are those of a rendered manifest, by kind and name.
func objects(t *testing.T, manifest string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		content := map[string]any{}
		unmarshal(t, []byte(document), &content)
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		key := object.GetKind() + "/" + object.GetName()
		if object.GetAPIVersion() == "" || object.GetName() == "" || found[key] != nil {
			t.Fatalf("%q has no name, no version or a namesake:\n%s", key, document)
		}
		found[key] = object
	}
	return found
}

func mustRender(t *testing.T, folder, name, namespace string, values map[string]any) map[string]*unstructured.Unstructured {
	t.Helper()
	rendered, err := render(t, folder, name, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, rendered.Manifest)
}

func TestStandinHasManyKinds(t *testing.T) {
	folder := Standin(t, Options{})
	rendered, err := render(t, folder, "one", "apps", nil)
	if err != nil {
		t.Fatal(err)
	}
	found := objects(t, rendered.Manifest)
	kinds := map[string]int{}
	for _, object := range found {
		kinds[object.GetKind()]++
	}
	if len(found) != 30 || len(kinds) != 24 {
		t.Errorf("%d objects of %d kinds, want 30 of 24: %v", len(found), len(kinds), slices.Sorted(maps.Keys(found)))
	}
	hooks := map[string]bool{}
	for _, hook := range rendered.Hooks {
		hooks[hook.Kind+"/"+hook.Name+fmt.Sprint(hook.Events)] = true
	}
	want := []string{"ConfigMap/one-after[post-install]", "Job/one-before[pre-install pre-upgrade]", "Job/one-goodbye[pre-delete]", "Pod/one-test[test]"}
	if have := slices.Sorted(maps.Keys(hooks)); !slices.Equal(have, want) {
		t.Errorf("hooks are %v, want %v", have, want)
	}
	if crds := rendered.Chart.CRDObjects(); len(crds) != 1 || crds[0].Name != "crds/gadgets.yaml" {
		t.Errorf("CRDs are %v, want that of Gadget", crds)
	}

	// Each switch leaves out what it says.
	less, err := render(t, folder, "one", "apps", map[string]any{
		"extra": map[string]any{"enabled": false}, "crs": map[string]any{"enabled": false}, "hooks": map[string]any{"enabled": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	left := objects(t, less.Manifest)
	maps.DeleteFunc(found, func(key string, _ *unstructured.Unstructured) bool { return left[key] != nil })
	gone := []string{"ConfigMap/one-extra", "Gadget/one-one", "Gadget/one-two", "Secret/one-extra", "Service/one-extra"}
	if have := slices.Sorted(maps.Keys(found)); !slices.Equal(have, gone) || len(less.Hooks) != 0 {
		t.Errorf("without extras left out are %v and %d hooks stay, want %v and none", have, len(less.Hooks), gone)
	}
}

func TestStandinsShareNoObject(t *testing.T) {
	folder := Standin(t, Options{})
	global := []string{"ClusterRole", "ClusterRoleBinding", "IngressClass", "PriorityClass", "ValidatingWebhookConfiguration"}
	owners := map[string]string{}
	for _, one := range [][2]string{{"one", "apps"}, {"two", "apps"}, {"one", "more"}} {
		rendered, err := render(t, folder, one[0], one[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		found := objects(t, rendered.Manifest)
		for _, hook := range rendered.Hooks {
			maps.Copy(found, objects(t, hook.Manifest))
		}
		for key, object := range found {
			if !slices.Contains(global, object.GetKind()) {
				key += " in " + one[1]
			}
			if owners[key] != "" {
				t.Errorf("release %s in %s and release %s both have %s", one[0], one[1], owners[key], key)
			}
			owners[key] = one[0] + " in " + one[1]
		}
	}
}

func TestStandinOptions(t *testing.T) {
	folder := Standin(t, Options{
		Name: "shop", Version: "1.1.0+b", AppVersion: "3",
		Values: map[string]any{"image": map[string]string{"tag": "3"}, "config": map[string]string{"a": "b"}},
		Files:  map[string]string{"templates/limits.yaml": "", "templates/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\n"},
	})
	Edit(t, folder, "templates/more.yaml", "name: more", "name: edited")
	found := mustRender(t, folder, "one", "apps", nil)
	if found["ConfigMap/edited"] == nil || found["LimitRange/one"] != nil {
		t.Errorf("files were not replaced: %v", slices.Sorted(maps.Keys(found)))
	}
	if labels := found["Service/one-web"].GetLabels(); labels["helm.sh/chart"] != "shop-1.1.0_b" || labels["app.kubernetes.io/version"] != "3" {
		t.Errorf("labels are %v", labels)
	}
	if data, _, _ := unstructured.NestedStringMap(found["ConfigMap/one-config"].Object, "data"); data["a"] != "b" || data["log-level"] != "info" {
		t.Errorf("data is %v", data)
	}
	containers, _, _ := unstructured.NestedSlice(found["Deployment/one-web"].Object, "spec", "template", "spec", "containers")
	if image := containers[0].(map[string]any)["image"]; image != "registry.example.com/standin/app:3" {
		t.Errorf("image is %v", image)
	}
}

func TestStandinRefuses(t *testing.T) {
	folder := Standin(t, Options{})
	for want, values := range map[string]map[string]any{
		"broken on purpose":     {"fail": "broken on purpose"},
		"got string, want int":  {"replicas": "two"},
		"additional properties": {"replica": 2},
		"value must be one of":  {"service": map[string]any{"type": "Other"}},
	} {
		if _, err := render(t, folder, "one", "apps", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", values, err, want)
		}
	}
}

func TestSmallCharts(t *testing.T) {
	password := func(folder, key string) any {
		value, _, _ := unstructured.NestedString(mustRender(t, folder, "one", "apps", nil)[key].Object, "data", "password")
		return value
	}
	if folder := Random(t); password(folder, "Secret/one-random") == password(folder, "Secret/one-random") {
		t.Error("the random password is the same twice")
	}
	// Without a cluster a lookup finds nothing.
	if folder := Lookup(t); password(folder, "Secret/one-lookup") == password(folder, "Secret/one-lookup") {
		t.Error("the password is the same twice, without a Secret to keep it in")
	}
	found := mustRender(t, TemplateCRD(t), "one", "apps", nil)
	if found["CustomResourceDefinition/valves.template.example.com"] == nil || found["Valve/one-valve"] == nil || len(found) != 2 {
		t.Errorf("the CRD or its object is missing: %v", found)
	}
	many := map[string]int{}
	for _, object := range mustRender(t, Many(t, 30), "one", "apps", nil) {
		many[object.GetKind()]++
	}
	want := map[string]int{
		"ConfigMap": 9, "Secret": 3, "Service": 3, "ServiceAccount": 3, "Role": 3, "RoleBinding": 3, "PodDisruptionBudget": 3, "Deployment": 3,
	}
	if !maps.Equal(many, want) {
		t.Errorf("kinds are %v, want %v", many, want)
	}
}

func TestModuleCharts(t *testing.T) {
	for name, want := range map[string]struct {
		version string
		kinds   []string
	}{
		"kueue":            {"0.17.0", []string{"CustomResourceDefinition", "Deployment", "ValidatingWebhookConfiguration"}},
		"jobset":           {"0.10.1", []string{"Deployment", "MutatingWebhookConfiguration", "Secret"}},
		"knative-operator": {"1.15.2", []string{"CustomResourceDefinition", "Deployment", "ConfigMap"}},
	} {
		folder := Module(t, name)
		rendered, err := render(t, folder, name, name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if meta := rendered.Chart.Metadata; meta.Name != name || meta.Version != want.version {
			t.Errorf("%s: the chart is %s %s, want %s", name, meta.Name, meta.Version, want.version)
		}
		var kinds []string
		for _, object := range objects(t, rendered.Manifest) {
			kinds = append(kinds, object.GetKind())
		}
		for _, kind := range want.kinds {
			if !slices.Contains(kinds, kind) {
				t.Errorf("%s has no %s", name, kind)
			}
		}
		// A copy can be changed, which the module cache can't.
		write(t, filepath.Join(folder, "Chart.yaml"), "")
	}
}

func TestRepository(t *testing.T) {
	old, current := Package(t, Standin(t, Options{})), Package(t, Standin(t, Options{Version: "1.1.0"}))
	for _, served := range []*HTTPRepository{Repository(t, old, current), RepositoryTLS(t, old, current)} {
		options := []getter.Option{getter.WithBasicAuth("ann", "secret"), getter.WithPassCredentialsAll(true)}
		if served.CA != "" {
			ca := filepath.Join(t.TempDir(), "ca.pem")
			write(t, ca, served.CA)
			options = append(options, getter.WithTLSClientConfig("", "", ca))
		}
		client, err := getter.NewHTTPGetter(options...)
		if err != nil {
			t.Fatal(err)
		}
		get := func(file string) string {
			t.Helper()
			content, err := client.Get(served.URL + "/" + file)
			if err != nil {
				t.Fatal(err)
			}
			return content.String()
		}
		served.RequireBasicAuth("ann", "secret")

		file := filepath.Join(t.TempDir(), "index.yaml")
		write(t, file, get("index.yaml"))
		index, err := repo.LoadIndexFile(file)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := index.Get("standin", "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if archive := get(entry.URLs[0]); archive != read(t, old) || "sha256:"+entry.Digest != Digest(t, old) {
			t.Errorf("the archive is not what was published, or its digest is not %s", entry.Digest)
		}
		if want := []string{"GET /charts/index.yaml", "GET /charts/standin-1.0.0.tgz"}; !slices.Equal(served.Requests(), want) {
			t.Errorf("requests are %v, want %v", served.Requests(), want)
		}

		served.RequireBasicAuth("ann", "another")
		if _, err := client.Get(served.URL + "/index.yaml"); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a wrong password gets %v, want a 401", err)
		}
		served.RequireBasicAuth("", "")
		restore := served.Fail(nil, fleettest.HTMLPage)
		if content := get("index.yaml"); !strings.Contains(content, "<html>") {
			t.Errorf("the broken answer is %q", content)
		}
		restore()
		served.EditIndex(t, func(index *repo.IndexFile) { index.Entries["standin"][0].Digest = "0123" })
		if content := get("index.yaml"); !strings.Contains(content, "digest: \"0123\"") {
			t.Errorf("the edited index is %s", content)
		}
	}
}

func TestServerFails(t *testing.T) {
	served := Repository(t)
	get := func(file string) (int, error) {
		response, err := http.Get(served.URL + "/" + file)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	restore := served.Fail(nil, fleettest.Cut)
	if _, err := get("index.yaml"); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that is cut gives %v, want EOF", err)
	}
	restore()
	isArchive := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".tgz") }
	served.Fail(isArchive, fleettest.BadGateway)
	for file, want := range map[string]int{"index.yaml": http.StatusOK, "a-1.0.0.tgz": http.StatusBadGateway} {
		if status, err := get(file); err != nil || status != want {
			t.Errorf("%s gives %d and %v, want %d", file, status, err, want)
		}
	}

	// A server stops although a client waits for what never comes.
	failed := make(chan error, 1)
	t.Run("silence", func(t *testing.T) {
		served := Repository(t)
		served.Fail(nil, fleettest.Silence)
		go func() {
			response, err := http.Get(served.URL + "/index.yaml")
			if err == nil {
				_ = response.Body.Close()
			}
			failed <- err
		}()
		fleettest.Eventually(t, func(context.Context) error {
			if len(served.Requests()) == 0 {
				return errors.New("no request yet")
			}
			return nil
		})
	})
	if err := <-failed; err == nil {
		t.Error("a request without an answer gives no error")
	}
}

func TestRegistry(t *testing.T) {
	archive := Package(t, Standin(t, Options{Version: "1.0.0+build"}))
	for _, served := range []*OCIRegistry{Registry(t, archive), RegistryTLS(t, archive)} {
		if len(served.Requests()) != 0 {
			t.Errorf("before the first request there are %v", served.Requests())
		}
		served.RequireBasicAuth("ann", "secret")
		pull := func(password string) (*helm.PullResult, error) {
			t.Helper()
			options := []helm.ClientOption{
				helm.ClientOptBasicAuth("ann", password),
				helm.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "credentials.json")),
				helm.ClientOptHTTPClient(served.http.Client()),
			}
			if served.CA == "" {
				options = append(options, helm.ClientOptPlainHTTP())
			}
			client, err := helm.NewClient(options...)
			if err != nil {
				t.Fatal(err)
			}
			return client.Pull(strings.TrimPrefix(served.URL, "oci://") + "/standin:1.0.0+build")
		}
		result, err := pull("secret")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(result.Chart.Data, []byte(read(t, archive))) || result.Chart.Digest != Digest(t, archive) {
			t.Error("the chart is not what was pushed")
		}
		// A registry's tag has no "+". The first request goes without credentials, to be told which are wanted.
		if want := "GET /v2/charts/standin/manifests/1.0.0_build"; !slices.Contains(served.Requests(), want) {
			t.Errorf("no %s in %v", want, served.Requests())
		}
		if _, err := pull("another"); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a wrong password gets %v, want a 401", err)
		}
	}
}

// The archive is what a folder holds, hidden files aside.
func TestPackageKeepsTheChart(t *testing.T) {
	folder := Standin(t, Options{})
	archive := Package(t, folder)
	if want := "standin-1.0.0.tgz"; filepath.Base(archive) != want {
		t.Errorf("the archive is called %s, want %s", filepath.Base(archive), want)
	}
	unpacked := t.TempDir()
	if err := chartutil.ExpandFile(unpacked, archive); err != nil {
		t.Fatal(err)
	}
	templates := func(folder string) (names []string) {
		loaded, err := loader.LoadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.Concat(loaded.Templates, []*chart.File{{Name: "values.schema.json", Data: loaded.Schema}}) {
			names = append(names, file.Name+" "+fmt.Sprint(len(file.Data)))
		}
		return names
	}
	if have, want := templates(filepath.Join(unpacked, "standin")), templates(folder); !slices.Equal(have, want) {
		t.Errorf("the archive has %v, want %v", have, want)
	}
}
