package release

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	helmchart "helm.sh/helm/v3/pkg/chart"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// crdKind is the kind of CustomResourceDefinitions.
var crdKind = cluster.Kind{
	Group: apiextensions.GroupName, Version: apiextensions.SchemeGroupVersion.Version,
	Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
}

const (
	// labelCRD stands on what berth wrote of crds/ folders, so that one list finds all of it.
	labelCRD = "berth.dev/crd"
	// annotationCRDChart is the chart, as "name version", that a CRD was last written from; see judgeCRD.
	annotationCRDChart = "berth.dev/crd-chart-version"
)

// chartCRDs returns the CRDs in the crds/ folders of a chart and of its subcharts, sorted by name, as berth applies them:
// with its marks, without what the API server would drop, without status, and without a CA bundle that holds no
// certificate, which is the place that an injector fills. Subcharts that the values switch off have to be taken out of
// the chart before. Of two CRDs with one name the first counts, as when Helm installs them. The CRDs are shared by all
// who ask for those of one chart, because reading them takes long: copy before changing one.
//
// The error is a *cluster.Problem that names the file: it is not YAML, holds something else than a CRD, or a CRD of
// apiextensions.k8s.io/v1beta1.
func chartCRDs(ch *helmchart.Chart) ([]*unstructured.Unstructured, error) {
	charts := map[string]*helmchart.Chart{}
	chartsByPath(ch, charts)
	found := map[string]*unstructured.Unstructured{}
	for _, file := range ch.CRDObjects() {
		path := filepath.ToSlash(file.Filename)
		documents, err := readOnce(path, charts[strings.TrimSuffix(path, "/"+file.Name)], file.File.Data)
		if err != nil {
			return nil, err
		}
		for _, crd := range documents {
			if found[crd.GetName()] == nil {
				found[crd.GetName()] = crd
			}
		}
	}
	crds := make([]*unstructured.Unstructured, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		crds = append(crds, found[name])
	}
	return crds, nil
}

// chartsByPath maps the paths by which CRDObjects names files to the charts that they are of.
func chartsByPath(ch *helmchart.Chart, into map[string]*helmchart.Chart) {
	into[ch.ChartFullPath()] = ch
	for _, subchart := range ch.Dependencies() {
		chartsByPath(subchart, into)
	}
}

// crdFile is a file of a crds/ folder that was read.
type crdFile struct {
	once sync.Once
	crds []*unstructured.Unstructured
	err  error
}

// crdFiles are the files that this process has read, by a digest of all that the outcome depends on. A file may take half
// a second (that of JobSet 0.10 has 780 kB), and a plan with twenty releases of a chart reads it twenty times.
var crdFiles sync.Map

func readOnce(path string, from *helmchart.Chart, content []byte) ([]*unstructured.Unstructured, error) {
	origin := ""
	if from != nil && from.Metadata != nil {
		origin = from.Metadata.Name + " " + from.Metadata.Version
	}
	known, _ := crdFiles.LoadOrStore(sha256.Sum256(fmt.Appendf(nil, "%q %q %s", path, origin, content)), &crdFile{})
	file := known.(*crdFile)
	file.once.Do(func() {
		file.crds, file.err = crdsIn(path, content)
		for _, crd := range file.crds {
			markCRD(crd, origin)
		}
	})
	return file.crds, file.err
}

func markCRD(crd *unstructured.Unstructured, origin string) {
	labels, annotations := crd.GetLabels(), crd.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[labelCRD] = "true"
	annotations[annotationCRDChart] = origin
	crd.SetLabels(labels)
	crd.SetAnnotations(annotations)
}

// crdsIn returns the CRDs of one file, which may hold several documents, and lists of them.
func crdsIn(file string, content []byte) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return crds, nil
		}
		if err != nil {
			return nil, unreadableCRD(file, err)
		}
		encoded, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, unreadableCRD(file, err)
		}
		if string(encoded) == "null" {
			continue // nothing but comments
		}
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(encoded); err != nil {
			return nil, unreadableCRD(file, err)
		}
		items := []*unstructured.Unstructured{&object}
		if object.IsList() {
			list, err := object.ToList()
			if err != nil {
				return nil, unreadableCRD(file, err)
			}
			items = nil
			for i := range list.Items {
				items = append(items, &list.Items[i])
			}
		}
		for _, item := range items {
			crd, err := normalCRD(file, item)
			if err != nil {
				return nil, err
			}
			crds = append(crds, crd)
		}
	}
}

// normalCRD is a CRD as the API server would store it: what it does not know is left out, which a server-side apply
// would refuse, and so is what it omits, which would look like a difference.
func normalCRD(file string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	group, kind := object.GroupVersionKind().Group, object.GetKind()
	if group != crdKind.Group || kind != crdKind.Kind {
		return nil, &cluster.Problem{
			Attribute: "chart",
			Summary:   fmt.Sprintf("%s holds %s", file, kube.Describe(object)),
			Detail: fmt.Sprintf("refusing: %s holds a %s of %s, but only a CustomResourceDefinition belongs in a chart's crds/ folder. "+
				"Move it to templates/ in a copy of the chart.", file, kind, object.GetAPIVersion()),
		}
	}
	if object.GroupVersionKind().Version != crdKind.Version {
		return nil, &cluster.Problem{
			Attribute: "chart",
			Summary:   fmt.Sprintf("%s holds %s of %s", file, kube.Describe(object), object.GetAPIVersion()),
			Detail: fmt.Sprintf("refusing: %s in %s is written in %s, which no Kubernetes since 1.22 serves. "+
				"Use a version of the chart that brings apiextensions.k8s.io/v1, or convert the file in a copy of the chart.",
				kube.Describe(object), file, object.GetAPIVersion()),
		}
	}
	if object.GetName() == "" {
		return nil, unreadableCRD(file, errors.New("a CustomResourceDefinition has no metadata.name"))
	}
	var typed apiextensions.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return nil, unreadableCRD(file, fmt.Errorf("%s: %w", kube.Describe(object), err))
	}
	if conversion := typed.Spec.Conversion; conversion != nil && conversion.Webhook != nil && conversion.Webhook.ClientConfig != nil {
		if config := conversion.Webhook.ClientConfig; isPlaceholder(config.CABundle) {
			config.CABundle = nil
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensions.CustomResourceDefinition{Spec: typed.Spec})
	if err != nil {
		return nil, unreadableCRD(file, fmt.Errorf("%s: %w", kube.Describe(object), err))
	}
	crd := crdKind.New("", object.GetName())
	crd.Object["spec"] = content["spec"]
	crd.SetLabels(object.GetLabels())
	crd.SetAnnotations(object.GetAnnotations())
	// By way of JSON, so that numbers have the types that they have in the server's answers.
	encoded, err := crd.MarshalJSON()
	if err != nil {
		return nil, unreadableCRD(file, err)
	}
	return crd, crd.UnmarshalJSON(encoded)
}

func unreadableCRD(file string, err error) error {
	return &cluster.Problem{
		Attribute: "chart",
		Summary:   fmt.Sprintf("%s cannot be read", file),
		Detail: fmt.Sprintf("refusing: %s is not a file of CustomResourceDefinitions: %s. Use another version of the chart, or correct the file in a copy of it.",
			file, strings.TrimSuffix(err.Error(), ".")),
		Err: err,
	}
}
