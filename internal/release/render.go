package release

import (
	"context"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// capabilities is what templates are told of the cluster, the kinds of the chart's own CRDs included: at the apply they
// are there before the templates are rendered.
func capabilities(ctx context.Context, c *cluster.Cluster, crds []*unstructured.Unstructured) (*chartutil.Capabilities, error) {
	version, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for group, names := range kinds {
		found[group] = true
		for _, name := range names {
			found[path.Join(group, name)] = true
		}
	}
	coming := kindsOf(crds)
	maps.Copy(coming, c.PlannedKinds())
	for gvk := range coming {
		found[gvk.GroupVersion().String()] = true
		found[path.Join(gvk.GroupVersion().String(), gvk.Kind)] = true
	}
	var versions chartutil.VersionSet
	for name := range found {
		versions = append(versions, name)
	}
	slices.Sort(versions)
	return &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}, nil
}

// rendering is what a chart makes of values.
type rendering struct {
	objects []object
	// unsettled are the objects that come out differently each time, or that depend on what `lookup` finds.
	unsettled map[string]bool
	// missing are kinds that nothing known of brings.
	missing []string
}

// render renders a chart as the apply will: as an install, or as an upgrade to a revision.
func render(ctx context.Context, c *cluster.Cluster, spec Spec, revision int, upgrade bool, crds []*unstructured.Unstructured) (rendering, error) {
	caps, err := capabilities(ctx, c, crds)
	if err != nil {
		return rendering{}, err
	}
	once := func(live bool) (rendering, error) {
		ch, err := fresh(spec.Chart.Chart)
		if err != nil {
			return rendering{}, err
		}
		return renderOnce(ctx, c, spec, ch, caps, revision, upgrade, live, crds)
	}
	result, err := once(true)
	if err != nil {
		return rendering{}, err
	}
	// A second time, without the cluster: what differs is nothing that a plan could promise.
	again, err := once(false)
	result.unsettled = map[string]bool{}
	for _, one := range result.objects {
		at := slices.IndexFunc(again.objects, one.same)
		if err != nil || at < 0 || !reflect.DeepEqual(again.objects[at].Object, one.Object) {
			result.unsettled[one.key()] = true
		}
	}
	return result, nil
}

// fresh is a chart as it was loaded: Helm changes one while it renders it.
func fresh(ch *helmchart.Chart) (*helmchart.Chart, error) {
	files := make([]*loader.BufferedFile, len(ch.Raw))
	for i, file := range ch.Raw {
		files[i] = &loader.BufferedFile{Name: file.Name, Data: file.Data}
	}
	return loader.LoadFiles(files)
}

func renderOnce(ctx context.Context, c *cluster.Cluster, spec Spec, ch *helmchart.Chart, caps *chartutil.Capabilities, revision int, upgrade, live bool, crds []*unstructured.Unstructured) (rendering, error) {
	hidden := hide(spec.Values, spec.Secrets)
	values := deepCopy(spec.Values)
	fails := func(err error) error { return renderProblem(spec, hidden, err) }
	if wanted := ch.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, caps.KubeVersion.String()) {
		return rendering{}, &cluster.Problem{
			Attribute: "chart",
			Summary:   fmt.Sprintf("Chart %s %s is not made for this cluster", ch.Name(), ch.Metadata.Version),
			Detail: fmt.Sprintf("refusing: it asks for Kubernetes %s, and %s runs %s. Nothing was applied. Choose a version of the chart that supports it, or upgrade the cluster.",
				wanted, c.Context(), caps.KubeVersion.Version),
		}
	}
	if err := chartutil.ProcessDependenciesWithMerge(ch, values); err != nil {
		return rendering{}, fails(err)
	}
	options := chartutil.ReleaseOptions{Name: spec.Name, Namespace: spec.Namespace, Revision: revision, IsInstall: !upgrade, IsUpgrade: upgrade}
	whole, err := chartutil.ToRenderValuesWithSchemaValidation(ch, values, options, caps, false)
	if err != nil {
		return rendering{}, fails(err)
	}
	var files map[string]string
	if live {
		config, err := c.ToRESTConfig()
		if err != nil {
			return rendering{}, err
		}
		files, err = engine.New(config).Render(ch, whole)
		if err != nil {
			return rendering{}, fails(err)
		}
	} else if files, err = (engine.Engine{}).Render(ch, whole); err != nil {
		return rendering{}, fails(err)
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return rendering{}, fails(err)
	}
	var all strings.Builder
	for _, one := range manifests {
		fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", one.Name, one.Content)
	}
	objects, err := parseManifest(all.String())
	if err != nil {
		return rendering{}, fails(err)
	}
	resolved, missing, err := resolveKnown(ctx, c, spec.Ref, objects, crds)
	if err != nil {
		return rendering{}, err
	}
	for i, one := range resolved {
		if at := slices.IndexFunc(resolved[:i], one.same); at >= 0 {
			return rendering{}, &cluster.Problem{
				Attribute: "chart",
				Summary:   fmt.Sprintf("Chart %s renders %s twice", ch.Name(), one.key()),
				Detail:    "refusing: one would overwrite the other. Nothing was applied. Change the values so that the two have different names, or ask the chart's authors.",
			}
		}
	}
	return rendering{objects: resolved, missing: missing}, nil
}

// ofSchema recognises what Helm says when values do not fit a chart's values.schema.json.
var ofSchema = regexp.MustCompile(`(?s)values don't meet the specifications of the schema\(s\) in the following chart\(s\):\s*(.*)`)

// renderProblem tells what Helm says of a chart that does not render.
func renderProblem(spec Spec, hidden hider, err error) error {
	text := hidden.text(strings.TrimSpace(err.Error()))
	if match := ofSchema.FindStringSubmatch(text); match != nil {
		return &cluster.Problem{
			Attribute: "values",
			Summary:   fmt.Sprintf("The values of %s do not fit the chart", spec.Ref),
			Detail: fmt.Sprintf("refusing: the chart's values.schema.json says: %s\nNothing was applied. Change `values` (or `set_sensitive_wo`) accordingly.",
				strings.TrimSpace(match[1])),
		}
	}
	return &cluster.Problem{
		Attribute: "chart",
		Summary:   fmt.Sprintf("The chart of %s does not render", spec.Ref),
		Detail:    fmt.Sprintf("Helm says: %s\nNothing was applied. The place is named before the message; it is the values there, or the chart, that have to change.", text),
	}
}

// helmConfiguration is what Helm's actions share.
func helmConfiguration(c *cluster.Cluster, caps *chartutil.Capabilities) *action.Configuration {
	return &action.Configuration{RESTClientGetter: c, Capabilities: caps, Log: func(string, ...any) {}}
}
