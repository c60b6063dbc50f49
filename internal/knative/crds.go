package knative

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

const (
	// CRDsOfRelease is where Knative publishes the CRDs of a release (R35).
	CRDsOfRelease = "https://github.com/knative/serving/releases/download/knative-v{version}/serving-crds.yaml"
	// CRDsOfOperator leaves the CRDs to the operator, which carries those of the versions that it installs.
	CRDsOfOperator = "operator"
	// placeholder stands in a source for the release, such as 1.15.0.
	placeholder = "{version}"
	// largestCRDs bounds what is read of a source: the file of 1.15 has 0.4 MB.
	largestCRDs = 16 << 20
	// fetchTime is what one attempt to fetch the CRDs may take.
	fetchTime = time.Minute
)

// crdNames are the CRDs of Serving, the same in every release from 1.12 to 1.15 (serving-crds.yaml).
var crdNames = []string{
	"certificates.networking.internal.knative.dev",
	"clusterdomainclaims.networking.internal.knative.dev",
	"configurations.serving.knative.dev",
	"domainmappings.serving.knative.dev",
	"images.caching.internal.knative.dev",
	"ingresses.networking.internal.knative.dev",
	"metrics.autoscaling.internal.knative.dev",
	"podautoscalers.autoscaling.internal.knative.dev",
	"revisions.serving.knative.dev",
	"routes.serving.knative.dev",
	"serverlessservices.networking.internal.knative.dev",
	"services.serving.knative.dev",
}

// ReadCRDs reads Serving's CRDs of a version from a source: a URL (https) or the path of a file, in which {version} stands
// for the release, such as 1.15.0 (the first of the minor version: the operator brings the patch release that it carries).
// The errors are *cluster.Problem on the attribute crds_source.
func ReadCRDs(ctx context.Context, source string, version Version) ([]*unstructured.Unstructured, error) {
	where := strings.ReplaceAll(source, placeholder, version.String()+".0")
	data, err := readSource(ctx, where)
	if err != nil {
		return nil, crdProblem(where, "they cannot be read", err)
	}
	crds, err := parseCRDs(data)
	if err != nil {
		return nil, crdProblem(where, "it is no file of CRDs", err)
	}
	return crds, nil
}

func crdProblem(where, what string, err error) error {
	return &cluster.Problem{
		Attribute: "crds_source", Summary: "The CRDs of Serving are not to be had: " + what,
		Detail: fmt.Sprintf("%s: %s. Correct `crds_source` (a URL or a path with {version} in it), or set it to \"operator\" to have the operator bring the CRDs that it carries.", where, err),
		Err:    err,
	}
}

func readSource(ctx context.Context, where string) ([]byte, error) {
	if !strings.HasPrefix(where, "https://") && !strings.HasPrefix(where, "http://") {
		return os.ReadFile(where)
	}
	client := retryablehttp.NewClient()
	client.Logger, client.RetryMax, client.HTTPClient.Timeout = nil, 3, fetchTime
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, largestCRDs+1))
	if err == nil && len(data) > largestCRDs {
		err = fmt.Errorf("it is larger than %d MB", largestCRDs>>20)
	}
	return data, err
}

// parseCRDs reads a stream of YAML documents that has CRDs and nothing else.
func parseCRDs(data []byte) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		if object.GroupVersionKind() != CRDs.GVK() {
			return nil, fmt.Errorf("it holds %s, which is no CRD", kube.Describe(object))
		}
		crds = append(crds, object)
	}
	if len(crds) == 0 {
		return nil, errors.New("it holds no CRD")
	}
	return crds, nil
}

// missingCRDs are those of Serving that the cluster does not have.
func missingCRDs(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	var missing []string
	for _, name := range crdNames {
		live, err := c.Exists(ctx, CRDs, "", name)
		if err != nil {
			return nil, err
		}
		if live == nil || live.GetDeletionTimestamp() != nil {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// applyCRDs makes sure of Serving's CRDs before what needs them: those that are missing are created, those that berth
// created and that are of an older minor version are brought to this one, and what somebody else keeps is left. It waits
// until they are established. From then on the operator moves them with every patch release that it installs.
func (s Spec) applyCRDs(ctx context.Context, c *cluster.Cluster, terms kube.Terms, crds []*unstructured.Unstructured) error {
	if err := migrate(ctx, c); err != nil {
		return err
	}
	targets := make([]kube.Target, 0, len(crds))
	for _, crd := range crds {
		targets = append(targets, kube.Target{Kind: CRDs, Name: crd.GetName()})
		live, err := c.Fetch(ctx, CRDs, "", crd.GetName())
		if err != nil {
			return err
		}
		if live != nil && live.GetDeletionTimestamp() == nil && !s.moves(live, terms) {
			continue
		}
		if _, err := kube.ConvergeFrom(ctx, c, kube.Object{Kind: CRDs, Desired: crd}, terms, live); err != nil {
			return err
		}
	}
	if err := kube.WaitAll(ctx, c, "the CRDs of Serving", targets, ""); err != nil {
		return err
	}
	c.Forget()
	return nil
}

// moves tells whether a CRD is ours and of an older minor version than Serving shall be.
func (s Spec) moves(live *unstructured.Unstructured, terms kube.Terms) bool {
	have := minorOf(live.GetLabels()[labelVersion])
	return terms.Marked(live) && have.Less(s.Version)
}

// claimCRDs marks the CRDs that the operator created for a Serving of ours, so that they go with it: the operator itself
// never deletes one. annotationNew is the operator's own word for what it did not find.
func (s Spec) claimCRDs(ctx context.Context, c *cluster.Cluster, terms kube.Terms) error {
	serving, err := c.Fetch(ctx, Servings, s.Namespace, s.Name)
	if err != nil || serving == nil || !kube.Created(serving) {
		return err
	}
	crds, err := c.Select(ctx, CRDs, "", labelName+"=knative-serving", "")
	if err != nil {
		return err
	}
	for _, live := range crds {
		whose := kube.Inspect(live, terms.Owner)
		if live.GetAnnotations()[annotationNew] != "new" || whose.Standing != kube.Foreign || len(whose.Keepers) > 0 {
			continue
		}
		claim := kube.Object{Kind: CRDs, Desired: CRDs.New("", live.GetName())}
		kube.SetAnnotation(claim.Desired, kube.AnnotationCreated, "true")
		if _, err := kube.ConvergeFrom(ctx, c, claim, kube.Terms{Owner: terms.Owner, Adopt: true}, live); err != nil {
			return err
		}
	}
	return nil
}

// annotationNew stands with the value "new" on what the operator created and did not find (manifestival).
const annotationNew = "manifestival"
