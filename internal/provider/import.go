package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// identityModel is the identity of every resource: never the cluster's key, which is a name of this configuration.
type identityModel struct {
	ClusterUID types.String `tfsdk:"cluster_uid"`
	Namespace  types.String `tfsdk:"namespace"`
	Name       types.String `tfsdk:"name"`
}

func (e *envelope[M, P]) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Attributes: map[string]identityschema.Attribute{
		"cluster_uid": identityschema.StringAttribute{RequiredForImport: true, Description: "The UID of the cluster's kube-system namespace."},
		"namespace":   identityschema.StringAttribute{OptionalForImport: true, Description: "The namespace, where the resource has one."},
		"name":        identityschema.StringAttribute{RequiredForImport: true, Description: "The name."},
	}}
}

func setIdentity(ctx context.Context, identity *tfsdk.ResourceIdentity, diagnostics *diag.Diagnostics, uid, namespace, name types.String) {
	if identity == nil || diagnostics.HasError() {
		return
	}
	diagnostics.Append(identity.Set(ctx, identityModel{ClusterUID: uid, Namespace: namespace, Name: name})...)
}

// ImportState takes `cluster/name` (`cluster/namespace/name` where the name is one within a namespace, and the member's key
// after the manager's where there is one), or an identity, and leaves the rest to Read.
func (e *envelope[M, P]) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	id := req.ID
	if id == "" && req.Identity != nil {
		if id = e.importIdentity(ctx, req, resp); resp.Diagnostics.HasError() {
			return
		}
	}
	parts, form, example := strings.Split(id, "/"), "the cluster's key and the name with a slash between them", "my-name"
	wanted := 2
	switch {
	case e.manager != nil && e.namespaced:
		wanted, form, example = 4, "the managing cluster's key, the other cluster's key, the namespace and the name with slashes between them", "eu-1/my-namespace/my-name"
	case e.manager != nil:
		wanted, form, example = 3, "the managing cluster's key, the other cluster's key and the name with slashes between them", "eu-1/my-name"
	case e.namespaced:
		wanted, form, example = 3, "the cluster's key, the namespace and the name with slashes between them", "my-namespace/my-name"
	}
	if len(parts) != wanted || slices.Contains(parts, "") {
		resp.Diagnostics.AddError(fmt.Sprintf("%q is not an import ID of berth_%s", id, e.name),
			fmt.Sprintf("It has to be %s, such as \"%s/%s\". The keys of the provider's `clusters` are: %s.",
				form, exampleKey(e.provider), example, kube.QuoteAll(e.provider.fleet.Names())))
		return
	}
	named := "name"
	if e.nameAttribute != "" {
		named = e.nameAttribute
	}
	values := map[string]string{"id": id, "cluster": parts[0], named: parts[wanted-1]}
	keys := parts[:1]
	switch {
	case e.manager != nil && e.namespaced:
		// The attribute that names the manager names the namespace on it, too.
		values["cluster"], values[e.manager(P(new(M))).attribute] = parts[1], parts[0]+"/"+parts[2]
		keys = parts[:2]
	case e.manager != nil:
		values["cluster"], values[e.manager(P(new(M))).attribute] = parts[1], parts[0]
		keys = parts[:2]
	case e.namespaced:
		values["namespace"] = parts[1]
	}
	for _, key := range keys {
		if _, err := e.provider.fleet.Cluster(key); err != nil {
			addError(&resp.Diagnostics, fmt.Sprintf("Importing berth_%s %q failed", e.name, strings.Join(parts[1:], "/")), err, nil)
			return
		}
	}
	for attribute, value := range values {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), value)...)
	}
}

// importIdentity is the import ID of an identity.
func (e *envelope[M, P]) importIdentity(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) string {
	var identity identityModel
	resp.Diagnostics.Append(req.Identity.Get(ctx, &identity)...)
	if resp.Diagnostics.HasError() {
		return ""
	}
	c, err := e.provider.fleet.ByUID(ctx, identity.ClusterUID.ValueString())
	if err == nil && c == nil {
		resp.Diagnostics.AddError(fmt.Sprintf("No cluster has the UID %q", identity.ClusterUID.ValueString()),
			fmt.Sprintf("None of the provider's `clusters` that answered has a kube-system namespace with this UID. The keys are: %s.", kube.QuoteAll(e.provider.fleet.Names())))
		return ""
	}
	if err != nil {
		addError(&resp.Diagnostics, "Importing by identity failed", err, nil)
		return ""
	}
	if e.manager != nil {
		key, err := e.findMember(ctx, e.provider.fleet, c, identity.Namespace.ValueString(), identity.Name.ValueString())
		if err != nil {
			addError(&resp.Diagnostics, "Importing by identity failed", err, nil)
			return ""
		}
		if e.namespaced {
			key += "/" + identity.Namespace.ValueString()
		}
		return c.Name() + "/" + key + "/" + identity.Name.ValueString()
	}
	if e.namespaced {
		return c.Name() + "/" + identity.Namespace.ValueString() + "/" + identity.Name.ValueString()
	}
	return c.Name() + "/" + identity.Name.ValueString()
}

func exampleKey(provider *configured) string {
	if names := provider.fleet.Names(); len(names) > 0 {
		return names[0]
	}
	return "eu-1"
}
