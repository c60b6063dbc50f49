package provider

import (
	"context"
	"maps"
	"strings"

	"github.com/distribution/reference"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

func instanceSchema(ctx context.Context) schema.Schema {
	own := instanceArguments()
	maps.Copy(own, instanceOutputs())
	return schema.Schema{
		MarkdownDescription: "An application's claim on one namespace of a shared cluster: its ownership, node pool, platforms, sizes, priorities and required Secrets. " +
			"The settings go into the ConfigMap `berth-instance` of the namespace, for readers in the cluster. Everything is checked at plan against the live cluster, and again before the first write.",
		Attributes: withCommon(ctx, "the namespace", "cluster/name", own),
	}
}

func instanceArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, MarkdownDescription: "The name of the instance, which an import finds by the label `berth.dev/instance`, whatever its namespace is called. Changing it replaces the instance.",
			Validators:    []validator.String{dnsLabel()},
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"namespace": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The namespace that the instance claims. Default: `name`. It is created unless it exists; one that exists needs `adopt`. Changing it replaces the instance.",
			Validators:          []validator.String{dnsLabel()},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplaceIfConfigured()},
		},
		"kubernetes_floor": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(preflight.Floor),
			MarkdownDescription: "The oldest Kubernetes version, or a constraint such as `>= 1.35, < 1.38`; vendor suffixes do not count. Default `" + preflight.Floor + "`, because sandboxes mount image volumes. Changed in place.",
			Validators:          []validator.String{versionConstraint()},
		},
		"registry": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "The prefix that images are pushed to and the nodes pull from without a pull secret, such as `registry.example.com/team`. Needed when there are `sandbox_images`, except on a kind cluster. Changed in place.",
			Validators:          []validator.String{registryPrefix()},
		},
		"kit_registry": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "A mirror of the components' images: it takes the place of the registry and path of `operator.image`, `orchestrator.image` and `repo_cache.image`. Default: they are pulled from where they are. Changed in place.",
			Validators:          []validator.String{registryPrefix()},
		},
		"kit_version": schema.StringAttribute{
			Optional: true, MarkdownDescription: "The version of the kit that the images belong to, recorded for readers in the cluster. Changed in place.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"sandbox_images": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "The sandbox images by name. A reference without a registry is below `registry`. Default: none, and then no `registry` is needed. Changed in place.",
			Validators:          []validator.Map{noNulls{}, mapvalidator.KeysAre(dnsLabel()), mapvalidator.ValueStringsAre(imageReference())},
		},
		"platforms": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "The platforms of the images: `linux/amd64`, `linux/arm64`. It replaces what the nodes say: then the nodes are not read, and sandbox nodes and sizes are not checked. " +
				"Default: the platforms of the nodes that an ordinary pod or a sandbox can run on; as nodes come and go, that set only grows. Changed in place.",
			Validators: []validator.Set{noNulls{}, setvalidator.SizeAtLeast(1), platformsCheck{}},
		},
		"sandbox": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Where sandboxes, and the repo cache with them, run. Default: where an ordinary pod runs. Both parts have the shapes of the pod spec. Changed in place.",
			Attributes: map[string]schema.Attribute{
				"node_selector": schema.MapAttribute{
					Optional: true, ElementType: types.StringType, MarkdownDescription: "The labels that a node must have.",
					Validators: []validator.Map{noNulls{}, mapvalidator.SizeAtLeast(1)},
				},
				"tolerations": schema.ListNestedAttribute{
					Optional: true, MarkdownDescription: "The taints that are tolerated.",
					Validators: []validator.List{noNulls{}, listvalidator.SizeAtLeast(1)},
					NestedObject: schema.NestedAttributeObject{
						Validators: []validator.Object{tolerationCheck{}},
						Attributes: map[string]schema.Attribute{
							"key": schema.StringAttribute{Optional: true, MarkdownDescription: "The taint's key. Left out, with `operator = \"Exists\"`, it is every taint.", Validators: nonEmpty()},
							"operator": schema.StringAttribute{
								Optional: true, Computed: true, Default: stringdefault.StaticString("Equal"),
								MarkdownDescription: "`Equal` (default) compares the value, `Exists` does not.",
							},
							"value": schema.StringAttribute{Optional: true, MarkdownDescription: "The taint's value, for `Equal`.", Validators: nonEmpty()},
							"effect": schema.StringAttribute{
								Optional: true, MarkdownDescription: "`NoSchedule`, `PreferNoSchedule` or `NoExecute`. Default: every effect.",
							},
						},
					},
				},
			},
		},
		"sizes": schema.MapNestedAttribute{
			Optional: true, MarkdownDescription: "The sizes of sandboxes by name. The runners silently drop a misspelt argument of a nested value: check the plan. Each sandbox requests its whole size. A size that no sandbox node holds, or that exceeds a quota, is a warning. Changed in place.",
			Validators: []validator.Map{noNulls{}, mapvalidator.SizeAtLeast(1), mapvalidator.KeysAre(stringvalidator.LengthAtLeast(1))},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"memory": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString(preflight.DefaultSize.Memory.String()),
					MarkdownDescription: "The memory. Default `" + preflight.DefaultSize.Memory.String() + "`.", Validators: []validator.String{memoryQuantity()},
				},
				"cpu": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString(preflight.DefaultSize.CPU.String()),
					MarkdownDescription: "The CPU. Default `" + preflight.DefaultSize.CPU.String() + "`.", Validators: []validator.String{cpuQuantity()},
				},
			}},
		},
		"priority_classes": schema.SingleNestedAttribute{
			Optional: true, MarkdownDescription: "PriorityClasses that exist, or that this configuration creates. For each key that is left out, the instance creates a class that all instances of the cluster share. Changed in place.",
			Attributes: map[string]schema.Attribute{
				"control": schema.StringAttribute{Optional: true, MarkdownDescription: "The class of operator, orchestrator and repo cache. Default: `berth-control` (100000) is created.", Validators: []validator.String{dnsSubdomain()}},
				"sandbox": schema.StringAttribute{Optional: true, MarkdownDescription: "The class of sandboxes; its preemptionPolicy has to be `Never`. Default: `berth-sandbox` (1000, `Never`) is created.", Validators: []validator.String{dnsSubdomain()}},
			},
		},
		"required_secrets": schema.ListNestedAttribute{
			Optional: true, MarkdownDescription: "Secrets that have to be in the namespace. One that is missing is refused when it is added; in a namespace that the same apply creates, the check follows after it. What is in them is never read into the state. Changed in place.",
			Validators: []validator.List{noNulls{}},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name": schema.StringAttribute{Required: true, MarkdownDescription: "The Secret's name.", Validators: []validator.String{dnsSubdomain()}},
				"keys": schema.ListAttribute{
					Optional: true, ElementType: types.StringType, MarkdownDescription: "Keys that it has to have. Default: none in particular.",
					Validators: []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(nonEmpty()...)},
				},
			}},
		},
		"env_from": schema.ListAttribute{
			Optional: true, ElementType: types.StringType, MarkdownDescription: "Secrets all of whose keys become environment variables. They have to exist, like `required_secrets`. Changed in place.",
			Validators: []validator.List{noNulls{}, listvalidator.ValueStringsAre(dnsSubdomain())},
		},
		"env": schema.MapNestedAttribute{
			Optional: true, MarkdownDescription: "Environment variables that come from one key of a Secret. It has to exist, like `required_secrets`. Changed in place.",
			Validators:   []validator.Map{noNulls{}, mapvalidator.KeysAre(envName())},
			NestedObject: schema.NestedAttributeObject{Attributes: secretKeyAttributes()},
		},
		"git_credentials": schema.ListNestedAttribute{
			Optional: true, MarkdownDescription: "The Secrets with which git repositories are read, by the first that matches. Each names a `token`, an `ssh_key_secret`, or both. Changed in place.",
			Validators: []validator.List{noNulls{}},
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{gitCredentialCheck{}}, Attributes: map[string]schema.Attribute{
				"match":          schema.StringAttribute{Required: true, MarkdownDescription: "Which repositories: a host, a URL prefix, or `*` for all.", Validators: nonEmpty()},
				"token":          schema.SingleNestedAttribute{Optional: true, MarkdownDescription: "The key of a Secret that holds a token.", Attributes: secretKeyAttributes()},
				"ssh_key_secret": schema.StringAttribute{Optional: true, MarkdownDescription: "The Secret that holds an SSH key.", Validators: []validator.String{dnsSubdomain()}},
			}},
		},
		"operator": schema.SingleNestedAttribute{
			Optional: true, MarkdownDescription: "The operator that all instances of a cluster share, in one namespace; off unless given. A newer one that runs already is left as it is, never downgraded. Changed in place; at an equal version only by the only instance that uses it, so raise `version` where others do. Taken out, it is uninstalled with the last instance that used it when `remove_operator` is `true`, and stays otherwise.",
			Attributes: map[string]schema.Attribute{
				"image":        schema.StringAttribute{Required: true, MarkdownDescription: "Its image; the same in all instances that have the same `version`.", Validators: []validator.String{imageReference()}},
				"version":      schema.StringAttribute{Required: true, MarkdownDescription: "Its version, such as `1.4.0`, without build metadata.", Validators: []validator.String{semanticVersion()}},
				"namespace":    schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString("berth-system"), MarkdownDescription: "Its namespace, the same in all instances of the cluster and none of theirs. The only instance that uses the operator moves it by another one. Default `berth-system`.", Validators: []validator.String{dnsLabel()}},
				"cluster_role": schema.StringAttribute{Optional: true, MarkdownDescription: "An existing ClusterRole to bind its ServiceAccount to, the same in all instances that name one; one that does not exist is a warning. Default: none.", Validators: nonEmpty()},
			},
		},
		"orchestrator": workloadAttribute("The orchestrator, a Deployment `berth-orchestrator` in the namespace; off unless given."),
		"repo_cache":   workloadAttribute("The repo cache, a DaemonSet `berth-repo-cache` on the sandbox nodes; off unless given."),
		"preflight": schema.SingleNestedAttribute{
			Optional: true, MarkdownDescription: "Checks that need a pod on the cluster; they run in an apply that creates or changes the instance, and are off unless given. Changing it touches only the state.",
			Attributes: map[string]schema.Attribute{
				"image_pull": schema.BoolAttribute{Optional: true, MarkdownDescription: "Pull each sandbox image with a short-lived pod without a pull secret. An image that cannot be pulled fails the apply. Default `false`."},
				"endpoints":  schema.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "URLs that pods have to reach, such as a model's. One that cannot be reached is a warning. Default: none.", Validators: []validator.List{noNulls{}, listvalidator.ValueStringsAre(httpURL()), listvalidator.AlsoRequires(path.MatchRelative().AtParent().AtName("image"))}},
				"image":      schema.StringAttribute{Optional: true, MarkdownDescription: "An image with `curl`, for `endpoints`.", Validators: []validator.String{imageReference()}},
			},
		},
		"force_destroy": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Destroy the namespace with objects in it that berth did not create. Default `false`: refused, with the list. Changing it touches only the state.",
		},
		"remove_operator": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Uninstall the shared operator with the last instance of the cluster that uses it, when that is destroyed or `operator` is taken out of it. Default `false`. Changing it touches only the state.",
		},
	}
}

func secretKeyAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"secret": schema.StringAttribute{Required: true, MarkdownDescription: "The Secret's name.", Validators: []validator.String{dnsSubdomain()}},
		"key":    schema.StringAttribute{Required: true, MarkdownDescription: "The key in it.", Validators: nonEmpty()},
	}
}

func workloadAttribute(description string) schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, MarkdownDescription: description + " Changed in place.",
		Attributes: map[string]schema.Attribute{
			"image": schema.StringAttribute{Required: true, MarkdownDescription: "Its image.", Validators: []validator.String{imageReference()}},
		},
	}
}

func instanceOutputs() map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	class := func(what string) schema.Attribute {
		return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: what, Attributes: map[string]schema.Attribute{
			"name":    text("The PriorityClass."),
			"managed": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether instances create it."},
		}}
	}
	return map[string]schema.Attribute{
		"context":            text("The kubeconfig context that leads to the cluster, or the cluster's key."),
		"server":             text("The URL of the API server."),
		"kubernetes_version": text("The version of the API server, as it says."),
		"namespace_uid":      text("The UID of the namespace: another namespace by its name is not the instance's."),
		"created_namespace":  schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether berth created the namespace; only then does destroy delete it."},
		"effective_platforms": schema.ListAttribute{
			Computed: true, ElementType: types.StringType, MarkdownDescription: "The platforms in use, sorted: `platforms`, or those of the nodes.",
		},
		"skipped_architectures": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Architectures of nodes for which no image is released. Null when `platforms` is set."},
		"schedulable_nodes":     schema.Int64Attribute{Computed: true, MarkdownDescription: "How many nodes the platforms come from, skipped architectures included. Null when `platforms` is set."},
		"sandbox_nodes":         schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The nodes on which a sandbox can run now. Null when `platforms` is set."},
		"excluded_nodes": schema.ListNestedAttribute{
			Computed: true, MarkdownDescription: "The other nodes, and why a sandbox cannot run there. Null when `platforms` is set.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{"name": text("The node."), "reason": text("Why not.")}},
		},
		"image_refs":   schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The full references of the sandbox images."},
		"kit_images":   schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The full references of the components' images."},
		"content_hash": text("The hash of the settings; the instance is updated when it moves."),
		"effective_priority_classes": schema.SingleNestedAttribute{
			Computed: true, MarkdownDescription: "The PriorityClasses in use.",
			Attributes: map[string]schema.Attribute{"control": class("That of the components."), "sandbox": class("That of sandboxes.")},
		},
		"operator_version": text("The version of the shared operator that runs; null when the instance has no part in it."),
	}
}

func nonEmpty() []validator.String { return []validator.String{stringvalidator.LengthAtLeast(1)} }

// registryPrefix is host[:port][/path], without a scheme, a tag or a slash at its end (J73).
func registryPrefix() validator.String {
	return stringCheck{"a registry prefix, host[:port][/path]", func(value string) string {
		const remedy = " Write the host, an optional port and an optional path, such as registry.example.com/team."
		switch {
		case strings.Contains(value, "://"):
			return "has a scheme." + remedy
		case strings.HasSuffix(value, "/"):
			return "ends with a slash." + remedy
		case strings.Contains(value, "@"):
			return "has a digest." + remedy
		}
		// A prefix is what stands before an image's name: with one behind it, it has to be a reference.
		named, err := reference.ParseNormalizedNamed(value + "/image")
		if err != nil || strings.Contains(value[strings.LastIndex(value, "/")+1:], ":") && strings.Contains(value, "/") {
			return "is not a registry prefix." + remedy
		}
		if first, _, _ := strings.Cut(value, "/"); reference.Domain(named) != first {
			return "does not begin with a registry's host." + remedy
		}
		return ""
	}}
}

// imageReference is an image reference as container runtimes take it.
func imageReference() validator.String {
	return stringCheck{"an image reference", func(value string) string {
		if _, err := reference.ParseNormalizedNamed(value); err != nil {
			return "is not an image reference: " + err.Error() + "."
		}
		return ""
	}}
}
