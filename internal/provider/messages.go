package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// changesOf says what an adoption will change.
func changesOf(outlook kube.Outlook) string {
	if len(outlook.Changes) == 0 {
		return " It is as the configuration wants it; only berth's marks are added."
	}
	changes := make([]string, len(outlook.Changes))
	for i, change := range outlook.Changes {
		changes[i] = change.String()
	}
	return " What will change: " + strings.Join(changes, "; ") + "."
}

// warnResume says that an object carries the resource's own mark although the state does not hold it.
func warnResume(diagnostics *diag.Diagnostics, c *cluster.Cluster, object string) {
	diagnostics.AddWarning(fmt.Sprintf("%s exists and carries this configuration's mark", object),
		fmt.Sprintf("It is on %s but not in the state at this address. If an earlier apply was interrupted, the apply goes on from it. If the resource was renamed, or its `for_each` key was, add a `moved` block instead: without it the old address is destroyed, and takes the object along. Two resources must not have the same name.", c.Context()))
}

// warnStays says what a destroy left, and why.
func warnStays(diagnostics *diag.Diagnostics, removal kube.Removal, object string, c *cluster.Cluster) {
	switch removal {
	case kube.Kept:
		diagnostics.AddWarning(fmt.Sprintf("%s stays on the cluster", object),
			fmt.Sprintf("It was adopted, or deletion_policy is \"retain\": it stays on %s, without berth's marks.", c.Context()))
	case kube.Replaced:
		diagnostics.AddWarning(fmt.Sprintf("%s stays, with the resource that takes this one's place", object),
			fmt.Sprintf("It is on %s, and another resource of this apply has it now, so it was not deleted.", c.Context()))
	case kube.NotOurs:
		diagnostics.AddWarning(fmt.Sprintf("%s was left alone", object),
			fmt.Sprintf("It is on %s without the mark of this configuration, so it is not ours to delete. Delete it by hand if nothing needs it.", c.Context()))
	}
}

func driftValue(ctx context.Context, drift map[string]string) (types.Map, error) {
	value, diagnostics := types.MapValueFrom(ctx, types.StringType, drift)
	if diagnostics.HasError() {
		return value, fmt.Errorf("drift could not be told: %v", diagnostics)
	}
	return value, nil
}

// optionalString is null for an empty string: what the cluster does not have was not set.
func optionalString(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}
