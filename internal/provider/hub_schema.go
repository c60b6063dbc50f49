package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/enroll"
)

func hubSchema(ctx context.Context) schema.Schema {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	kueueNamespace := defaulted(enroll.DefaultKueueNamespace, "The namespace that Kueue runs in. Default `"+enroll.DefaultKueueNamespace+"`. Changing it is in place.", dnsLabel())
	return schema.Schema{
		MarkdownDescription: "The dispatching side of a tenant: the queues that jobs are submitted to on a hub, from which Kueue's MultiKueue dispatches them to workers: the clusters that the hub's MultiKueueConfig, `berth-<tenant>`, names. It is yours to write for now, and the hub is idle until it is there. " +
			"Kueue has to run on the hub, with an origin of the hub's own and with just the kinds of job that every worker has: both are checked at plan, because a hub with the default origin deletes other hubs' jobs, and a worker that lacks one kind of job is lost to the hub. " +
			"Destroy refuses while jobs are in the queue; Kueue stays.",
		Attributes: withCommon(ctx, "a Kueue object of the preset that the hub has", "cluster/tenant", map[string]schema.Attribute{
			"tenant_namespace": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The tenant's namespace on the hub, which has to exist and holds berth's records; at most 57 characters, because objects of Kueue are named after it. Changing it replaces the hub.",
				Validators:          []validator.String{dnsLabel()}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"workload_namespaces": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The namespaces from which jobs are dispatched; they have to exist, and each gets a LocalQueue, here and on every worker. Default: the tenant's. Changing them is in place; one that is taken out loses its LocalQueue.",
				Validators:          []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.UniqueValues(), listvalidator.ValueStringsAre(dnsLabel())},
			},
			"frameworks": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The kinds of job that are dispatched, in Kueue's words: exactly those of MultiKueue's that are on in the configuration of the hub's Kueue. Every worker has to have them. Default `[\"batch/job\"]`. Changing them is in place.",
				Validators:          []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.UniqueValues(), listvalidator.ValueStringsAre(stringvalidator.OneOf(enroll.Frameworks()...))},
			},
			"kueue_namespace":    kueueNamespace,
			"scheduling":         schedulingAttribute(true),
			"origin":             text("What marks the hub's jobs on its workers: `multiKueue.origin` in the configuration of its Kueue."),
			"admission_check":    text("The AdmissionCheck by which the queue's jobs are dispatched."),
			"multikueue_config":  text("The name of the MultiKueueConfig with the workers."),
			"kueue_version":      text("The version of Kueue that runs; null where it cannot be told."),
			"jobset_version":     text("The version of JobSet that runs; null where there is none."),
			"workers":            schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The MultiKueueClusters that the hub dispatches to."},
			"scheduling_objects": schedulingObjectsAttribute(),
		}),
	}
}
