package knative

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

const (
	// regionsName is the ConfigMap, in Serving's namespace, on which each region of the cluster has one annotation (Y8).
	regionsName = "berth-knative-regions"
	// regionPrefix begins the annotation of a region; a hash follows, since an annotation's name ends at 63 characters.
	regionPrefix = "regions.berth.dev/"
	// regionManager begins the field manager of a region.
	regionManager = "berth-region-"

	// defaultMaxTimeout is Serving's own max-revision-timeout-seconds (R80; config-defaults of Serving 1.15).
	defaultMaxTimeout = 600
	// entryPointSpare is what the entry points of the ingress allow beyond the longest request, and leastEntryPointTimeout
	// the least that they have, in seconds (R79).
	entryPointSpare        = 10
	leastEntryPointTimeout = 120
)

// Part is what one region wants of what the regions of a cluster share.
type Part struct {
	// RequestTimeout is how long a request may last (R78), in seconds; 0 for no wish.
	RequestTimeout int `json:"requestTimeout,omitempty"`
	// Domains are those of the region's functions, each to its selector as Serving's config-domain takes it: YAML, or ""
	// for every Service (R108).
	Domains map[string]string `json:"domains,omitempty"`
}

// contribution is a Part as the annotation holds it.
type contribution struct {
	Region string `json:"region"`
	Part
}

// Contribute writes what a region wants, in place of what it wanted before, and leaves the parts of all other regions
// alone whatever happens at the same moment (Y8). region is its owner-qualified name (kube.Owner.String) and namespace
// Serving's. Nothing follows from it before ApplyShared. The error is a *cluster.Problem where the namespace is missing,
// where somebody else has the ConfigMap, and where another region wants one of the domains for other Services.
func Contribute(ctx context.Context, c *cluster.Cluster, namespace, region string, part Part) error {
	live, err := c.Fetch(ctx, cluster.ConfigMaps, namespace, regionsName)
	if err != nil {
		return err
	}
	if err := checkRegions(c, namespace, live); err != nil {
		return err
	}
	others, err := partsOf(c, live)
	if err != nil {
		return err
	}
	delete(others, region)
	if err := disputed(c, region, part, others); err != nil {
		return err
	}
	value, err := json.Marshal(contribution{Region: region, Part: part})
	if err != nil {
		return err
	}
	wanted := regionsObject(namespace)
	kube.SetAnnotation(wanted, regionKey(region), string(value))
	c.Progress(ctx, kube.Describe(wanted), "contribute", "for "+region)
	return retried(ctx, func() error {
		_, err := c.Apply(ctx, cluster.ConfigMaps, wanted, cluster.ApplyOptions{FieldManager: regionManager + hashOf(region), Force: true})
		if apierrors.IsNotFound(err) {
			return &cluster.Problem{
				Summary: fmt.Sprintf("Namespace %s is not on cluster %q", namespace, c.Name()),
				Detail: fmt.Sprintf("%s wants its part in Knative Serving, but %s has no namespace %s. Nothing was applied. "+
					"Install Serving first (berth_knative_serving), or name the namespace that has it.", region, c.Context(), namespace),
			}
		}
		return err
	})
}

// Withdraw takes the part of a region away, and with the last one the ConfigMap (X7). What is not there counts as
// withdrawn. Nothing follows from it before ApplyShared.
func Withdraw(ctx context.Context, c *cluster.Cluster, namespace, region string) error {
	return retried(ctx, func() error {
		live, err := c.Fetch(ctx, cluster.ConfigMaps, namespace, regionsName)
		if err != nil || live == nil || live.GetAnnotations()[regionKey(region)] == "" {
			return err
		}
		c.Progress(ctx, kube.Describe(live), "withdraw", "for "+region)
		if alone(live, region) && kube.IsShared(live) {
			return c.DeleteAsSeen(ctx, cluster.ConfigMaps, live)
		}
		// An apply of nothing gives up all that the region's manager owns. It is for the object as it was seen: of two that
		// leave at once, one has to see that it is the last.
		nothing := cluster.ConfigMaps.New(namespace, regionsName)
		nothing.SetUID(live.GetUID())
		nothing.SetResourceVersion(live.GetResourceVersion())
		_, err = c.Apply(ctx, cluster.ConfigMaps, nothing, cluster.ApplyOptions{FieldManager: regionManager + hashOf(region), Force: true})
		return err
	})
}

// removeShared deletes the ConfigMap of the regions' parts with Serving itself, whatever is still in it. It waits for a run
// that is still at work on them.
func removeShared(ctx context.Context, c *cluster.Cluster, namespace string) error {
	live, err := c.Fetch(ctx, cluster.ConfigMaps, namespace, regionsName)
	if err != nil || live == nil || !kube.IsShared(live) {
		return err
	}
	return UnderLease(ctx, c, namespace, func(ctx context.Context) error {
		return c.Delete(ctx, cluster.ConfigMaps, namespace, regionsName, live.GetUID())
	})
}

// Parts are what the regions of a cluster want, by their owner-qualified names; empty where there is none.
func Parts(ctx context.Context, c *cluster.Cluster, namespace string) (map[string]Part, error) {
	live, err := c.Fetch(ctx, cluster.ConfigMaps, namespace, regionsName)
	if err != nil {
		return nil, err
	}
	return partsOf(c, live)
}

func partsOf(c *cluster.Cluster, live *unstructured.Unstructured) (map[string]Part, error) {
	parts := map[string]Part{}
	if live == nil {
		return parts, nil
	}
	for key, value := range live.GetAnnotations() {
		if !strings.HasPrefix(key, regionPrefix) {
			continue
		}
		var one contribution
		if err := json.Unmarshal([]byte(value), &one); err != nil || one.Region == "" {
			return nil, &cluster.Problem{
				Summary: fmt.Sprintf("%s has a part that cannot be read", kube.Describe(live)),
				Detail: fmt.Sprintf("The annotation %s of %s on %s is not what a region writes, so that what the regions share cannot be computed. Nothing was applied. "+
					"Remove the annotation; the region that it belongs to writes it again at its next apply.", key, kube.Describe(live), c.Context()),
				Err: err,
			}
		}
		parts[one.Region] = one.Part
	}
	return parts, nil
}

// regionsObject is the ConfigMap with the marks on which all regions agree.
func regionsObject(namespace string) *unstructured.Unstructured {
	object := cluster.ConfigMaps.New(namespace, regionsName)
	object.SetLabels(map[string]string{kube.LabelManagedBy: kube.ManagedBy, kube.LabelShared: "true"})
	kube.SetAnnotation(object, kube.AnnotationCreated, "true")
	return object
}

func checkRegions(c *cluster.Cluster, namespace string, live *unstructured.Unstructured) error {
	return kube.CheckShared(c, kube.Object{Kind: cluster.ConfigMaps, Desired: regionsObject(namespace)}, live,
		"The regions of the cluster keep there what they share of Knative Serving. Rename or delete it.")
}

// disputed refuses a domain that another region has for other Services: of the two, one would get the other's requests.
func disputed(c *cluster.Cluster, region string, part Part, others map[string]Part) error {
	for _, other := range slices.Sorted(maps.Keys(others)) {
		for domain, selector := range others[other].Domains {
			if wanted, both := part.Domains[domain]; both && wanted != selector {
				return &cluster.Problem{
					Summary: fmt.Sprintf("Domain %s belongs to another region of cluster %q", domain, c.Name()),
					Detail: fmt.Sprintf("refusing: %s on %s has domain %s for other Services than %s wants it for. Nothing was applied. Give one of the regions another domain.",
						other, c.Context(), domain, region),
				}
			}
		}
	}
	return nil
}

// alone tells whether no region but one has a part.
func alone(live *unstructured.Unstructured, region string) bool {
	for key := range live.GetAnnotations() {
		if strings.HasPrefix(key, regionPrefix) && key != regionKey(region) {
			return false
		}
	}
	return true
}

func regionKey(region string) string { return regionPrefix + hashOf(region) }

// hashOf is the hash by which marks name a region.
func hashOf(region string) string {
	configuration, resource, _ := strings.Cut(region, "/")
	return kube.Owner{Configuration: configuration, Resource: resource}.Hash()
}

// retried repeats a write that somebody else's write came before, standing back a little longer each time.
func retried(ctx context.Context, write func() error) error {
	backoff := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.2, Jitter: 1, Steps: 25}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(context.Context) (bool, error) {
		last = write()
		if apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// Shared is what the parts of all regions come to.
type Shared struct {
	// RequestTimeout is the longest that a region wants, in seconds; 0 where none has a wish.
	RequestTimeout int
	// Domains are those of all regions, each to its selector.
	Domains map[string]string
}

// Aggregate computes what the parts of all regions come to: the longest timeout, and all domains. Of regions that want a
// domain for different Services, which Contribute refuses as far as it can see, the first by name has it.
func Aggregate(parts map[string]Part) Shared {
	shared := Shared{Domains: map[string]string{}}
	for _, region := range slices.Sorted(maps.Keys(parts)) {
		part := parts[region]
		shared.RequestTimeout = max(shared.RequestTimeout, part.RequestTimeout)
		for domain, selector := range part.Domains {
			if _, taken := shared.Domains[domain]; !taken {
				shared.Domains[domain] = selector
			}
		}
	}
	return shared
}

// EntryPointTimeout is the read and write timeout of the ingress' entry points, in seconds: the longest request and ten
// seconds, and never less than 120 (R79).
func (s Shared) EntryPointTimeout() int {
	return max(s.RequestTimeout+entryPointSpare, leastEntryPointTimeout)
}

// MaxRevisionTimeout is Serving's maximum for a request, in seconds, where live is set now (0 for Serving's default of
// 600): raised to the longest request where that is longer, and never lowered (R80).
func (s Shared) MaxRevisionTimeout(live int) int {
	if live == 0 {
		live = defaultMaxTimeout
	}
	return max(live, s.RequestTimeout)
}
