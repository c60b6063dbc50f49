package knative

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

const (
	// sharedManager writes what the regions share into the KnativeServing.
	sharedManager = "berth-knative-shared"
	// annotationDomains stands on the KnativeServing and lists the domains of its configuration that regions put there: only
	// those are ever removed. It is written together with them, so that neither is there without the other.
	annotationDomains = "berth.dev/region-domains"

	configDefaults, configDomain = "defaults", "domain"
	keyMaxTimeout, keyTimeout    = "max-revision-timeout-seconds", "revision-timeout-seconds"
)

// Outcome is what ApplyShared came to.
type Outcome struct {
	// Shared is what the regions want together; its EntryPointTimeout is what Traefik's entry points need.
	Shared Shared
	// Warnings are domains that somebody else has in the KnativeServing.
	Warnings []release.Warning
}

// ApplyShared brings what the regions want together into the KnativeServing name in a namespace: the maximum of a request
// (R80) and the domains (R108), as a merge patch that leaves everything else alone, under the Lease of UnderLease (Y8).
//
// What is in also is called with the outcome while the Lease is still held, to bring Traefik's entry points to
// Shared.EntryPointTimeout (R79): outside of it, a run that computed less could write last.
//
// A domain that somebody else put into the KnativeServing stays as it is; where it differs from what a region wants, that
// is a warning. The error is a *cluster.Problem where there is no KnativeServing. Raising the maximum does not raise the
// activator's terminationGracePeriodSeconds: the operator's overrides (spec.workloads) have no such field.
func ApplyShared(ctx context.Context, c *cluster.Cluster, namespace, name string, also ...func(context.Context, Shared) error) (Outcome, error) {
	var outcome Outcome
	err := UnderLease(ctx, c, namespace, func(ctx context.Context) error {
		parts, err := Parts(ctx, c, namespace)
		if err != nil {
			return err
		}
		outcome.Shared = Aggregate(parts)
		err = retried(ctx, func() error {
			outcome.Warnings, err = mergeShared(ctx, c, namespace, name, outcome.Shared)
			return err
		})
		for _, do := range also {
			if err == nil {
				err = do(ctx, outcome.Shared)
			}
		}
		return err
	})
	return outcome, err
}

// mergeShared writes once what the KnativeServing as it is now lacks; the error satisfies IsConflict when it changed in
// the meantime.
func mergeShared(ctx context.Context, c *cluster.Cluster, namespace, name string, shared Shared) ([]release.Warning, error) {
	live, err := c.Fetch(ctx, Servings, namespace, name)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return nil, &cluster.Problem{
			Summary: fmt.Sprintf("%s is not on cluster %q", kube.Name(Servings.Kind, namespace, name), c.Name()),
			Detail: fmt.Sprintf("What the regions of %s share is kept there. Nothing was applied to it. "+
				"Install Serving first (berth_knative_serving), or name the one that is there.", c.Context()),
		}
	}
	defaults, err := c.Fetch(ctx, cluster.ConfigMaps, namespace, "config-"+configDefaults)
	if err != nil {
		return nil, err
	}
	merge := mergeOf(live, shared, byHand(defaults))
	if merge.patch == nil {
		return merge.warnings, nil
	}
	merge.patch["metadata"] = map[string]any{
		"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion(),
		"annotations": map[string]any{annotationDomains: merge.ours},
	}
	body, err := json.Marshal(merge.patch)
	if err != nil {
		return nil, err
	}
	c.Progress(ctx, kube.Describe(live), "apply", "what the regions share: "+strings.Join(merge.changes, ", "))
	_, err = c.MergePatch(ctx, Servings, namespace, name, body, sharedManager)
	return merge.warnings, err
}

// merge is what a KnativeServing lacks of what the regions share.
type merge struct {
	// patch is the merge patch of its spec; nil where it lacks nothing.
	patch map[string]any
	// ours is the annotation of the domains that are ours afterwards; nil for none, which removes it.
	ours     any
	changes  []string
	warnings []release.Warning
}

// mergeOf compares a KnativeServing with what the regions share. byHand is the maximum that somebody wrote into Serving's
// own ConfigMap, past the KnativeServing; 0 for none.
func mergeOf(live *unstructured.Unstructured, shared Shared, byHand int) merge {
	var m merge
	config := map[string]any{}
	if defaults, key := section(live, configDefaults); shared.RequestTimeout > 0 {
		set := max(seconds(defaults[keyMaxTimeout]), byHand)
		if wanted := shared.MaxRevisionTimeout(set); wanted > (Shared{}).MaxRevisionTimeout(set) {
			// Serving refuses a maximum below the default of a single request.
			wanted = max(wanted, seconds(defaults[keyTimeout]))
			config[key] = map[string]any{keyMaxTimeout: strconv.Itoa(wanted)}
			m.changes = append(m.changes, fmt.Sprintf("%s.%s = %d", key, keyMaxTimeout, wanted))
		}
	}
	was, ours := domainsOf(live), map[string]bool{}
	domains, key := section(live, configDomain)
	entries := map[string]any{}
	for _, domain := range slices.Sorted(maps.Keys(shared.Domains)) {
		found, there := domains[domain]
		wanted := shared.Domains[domain]
		switch {
		case there && !was[domain]:
			if found != wanted {
				m.warnings = append(m.warnings, foreignDomain(live, key, domain, found, wanted))
			}
			continue
		case !there || found != wanted:
			entries[domain] = wanted
			m.changes = append(m.changes, key+"."+domain)
		}
		ours[domain] = true
	}
	for _, domain := range slices.Sorted(maps.Keys(was)) {
		if _, there := domains[domain]; there && !ours[domain] {
			entries[domain] = nil
			m.changes = append(m.changes, "without "+key+"."+domain)
		}
	}
	if len(entries) > 0 {
		config[key] = entries
	}
	if len(ours) > 0 {
		list, _ := json.Marshal(slices.Sorted(maps.Keys(ours))) // strings always marshal
		m.ours = string(list)
	}
	if len(config) > 0 {
		m.patch = map[string]any{"spec": map[string]any{"config": config}}
	} else if !maps.Equal(was, ours) {
		m.patch = map[string]any{}
	}
	return m
}

func foreignDomain(live *unstructured.Unstructured, key, domain, found, wanted string) release.Warning {
	return release.Warning{
		Summary: fmt.Sprintf("Domain %s of %s is somebody else's", domain, kube.Describe(live)),
		Detail: fmt.Sprintf("spec.config.%s has domain %s for %s, and a region wants it for %s. berth did not put it there and leaves it. "+
			"Remove the entry, and the next apply writes the region's.", key, domain, services(found), services(wanted)),
	}
}

// services are the Services that a selector of config-domain means, as messages say it.
func services(selector string) string {
	if selector == "" {
		return "every Service"
	}
	return strconv.Quote(selector)
}

// section is a part of the configuration of a KnativeServing and the key that it stands under. The operator takes a key
// with and without the prefix "config-", and of two it reads just the one with it (ConfigMapTransform of the operator), so
// that what is written under the other would be ignored. The key is the one that is there, or else the short one.
func section(live *unstructured.Unstructured, name string) (entries map[string]string, key string) {
	for _, key := range []string{"config-" + name, name} {
		if _, found, _ := unstructured.NestedMap(live.Object, "spec", "config", key); found {
			entries, _, _ := unstructured.NestedStringMap(live.Object, "spec", "config", key)
			return entries, key
		}
	}
	return nil, name
}

// domainsOf are the domains that regions put into a KnativeServing. An annotation that cannot be read claims none: what is
// there then counts as somebody else's, and is never removed.
func domainsOf(live *unstructured.Unstructured) map[string]bool {
	var list []string
	if json.Unmarshal([]byte(live.GetAnnotations()[annotationDomains]), &list) != nil {
		return map[string]bool{}
	}
	domains := map[string]bool{}
	for _, domain := range list {
		domains[domain] = true
	}
	return domains
}

// byHand is the maximum in Serving's ConfigMap of defaults; nil where there is none. The KnativeServing wins over it, so
// that writing there less than somebody set by hand would lower it.
func byHand(defaults *unstructured.Unstructured) int {
	if defaults == nil {
		return 0
	}
	text, _, _ := unstructured.NestedString(defaults.Object, "data", keyMaxTimeout)
	return seconds(text)
}

// seconds is a number of seconds in a configuration; 0 for what is none.
func seconds(text string) int {
	number, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || number < 0 {
		return 0
	}
	return number
}
