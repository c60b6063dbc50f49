package charts

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// The charts are as their projects publish them: with images that exist, of the chart's own version.
func TestKueueAndJobSet(t *testing.T) {
	queue := Kueue(t, "0.15.0", "v0.16.4", "0.17.0", "0.17.8")
	sets := JobSet(t, "0.10.1", "0.11.0")
	for _, test := range []struct {
		archive, version string
		image            []string // where the values have it
		repository       string
	}{
		{queue[0], "0.15.0", []string{"controllerManager", "manager"}, "registry.k8s.io/kueue/kueue"},
		{queue[1], "0.16.4", []string{"controllerManager", "manager"}, "registry.k8s.io/kueue/kueue"},
		{queue[2], "0.17.0", []string{"controllerManager", "manager"}, "registry.k8s.io/kueue/kueue"},
		{queue[3], "0.17.8", []string{"kueueViz", "backend"}, "registry.k8s.io/kueue/kueueviz-backend"},
		{sets[0], "0.10.1", nil, "registry.k8s.io/jobset/jobset"},
		{sets[1], "0.11.0", nil, "registry.k8s.io/jobset/jobset"},
	} {
		loaded := load(t, test.archive)
		if loaded.Metadata.Version != test.version || loaded.Metadata.AppVersion != "v"+test.version {
			t.Errorf("%s: version %s, appVersion %s; want %s", test.archive, loaded.Metadata.Version, loaded.Metadata.AppVersion, test.version)
		}
		values := chartutil.Values(loaded.Values)
		for _, key := range append(test.image, "image") {
			var err error
			if values, err = values.Table(key); err != nil {
				t.Fatalf("%s: %v", test.archive, err)
			}
		}
		if values["repository"] != test.repository || values["tag"] != "v"+test.version || values["pullPolicy"] != "IfNotPresent" {
			t.Errorf("%s: image %v", test.archive, values)
		}
	}
	// 0.16 is made of 0.17, and not of 0.15, which knows no RayService.
	for i, knows := range []bool{false, true, true, true} {
		values, err := chartutil.Values(load(t, queue[i]).Values).Table("managerConfig")
		if err != nil {
			t.Fatal(err)
		}
		config, _ := values["controllerManagerConfigYaml"].(string)
		if !strings.Contains(config, "ray.io/raycluster") || strings.Contains(config, "ray.io/rayservice") != knows {
			t.Errorf("%s: the configuration is %s", queue[i], config)
		}
	}
}

func load(t *testing.T, archive string) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(archive)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
