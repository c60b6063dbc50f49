package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

type nodesModel struct {
	located
	NodeSelector         types.Map           `tfsdk:"node_selector"`
	Tolerations          types.List          `tfsdk:"tolerations"`
	Sizes                types.Map           `tfsdk:"sizes"`
	Nodes                []nodeModel         `tfsdk:"nodes"`
	Admitted             []string            `tfsdk:"admitted"`
	Excluded             []excludedModel     `tfsdk:"excluded"`
	Platforms            []string            `tfsdk:"platforms"`
	SkippedArchitectures []string            `tfsdk:"skipped_architectures"`
	SchedulableNodes     types.Int64         `tfsdk:"schedulable_nodes"`
	Fits                 map[string][]string `tfsdk:"fits"`
	Report               types.String        `tfsdk:"report"`
}

type nodeModel struct {
	Name             types.String      `tfsdk:"name"`
	Platform         types.String      `tfsdk:"platform"`
	ContainerRuntime types.String      `tfsdk:"container_runtime"`
	Allocatable      map[string]string `tfsdk:"allocatable"`
}

type excludedModel struct {
	Name   types.String `tfsdk:"name"`
	Reason types.String `tfsdk:"reason"`
}

func newNodes() datasource.DataSource {
	return newDataSource(question[nodesModel, *nodesModel]{
		name:   "nodes",
		schema: nodesSchema,
		object: func(*nodesModel) string { return "" },
		read:   readNodes,
		skip: func(context.Context, *nodesModel, string) []string {
			return []string{"the nodes, their platforms, which of them admit the pod, and which sizes fit"}
		},
	})
}

func nodesSchema() schema.Schema {
	nameList := func(description string) schema.Attribute {
		return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
	}
	return schema.Schema{
		MarkdownDescription: "Which nodes of a cluster can run a pod with this node selector and these tolerations, which can't and why, what platforms they are, and which sizes fit. " +
			"Nodes come and go, so nothing that it finds is an error: no node, no known platform and no room are warnings. While the cluster's connection is not known yet, every output is null.",
		Attributes: withLocated(map[string]schema.Attribute{
			"node_selector": nodeSelectorAttribute("The labels that a node must have. Default: none."),
			"tolerations": tolerationsAttribute("The taints that are tolerated, in the shape of the pod spec. Default: none, so that a node with a `NoSchedule` or `NoExecute` taint is excluded. " +
				"`PreferNoSchedule` never excludes."),
			"sizes": sizesAttribute("What one pod reserves as a whole, by name; see `fits`."),
			"nodes": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "Every node of the cluster, sorted by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":              schema.StringAttribute{Computed: true, MarkdownDescription: "The name."},
					"platform":          schema.StringAttribute{Computed: true, MarkdownDescription: "Operating system and architecture, such as `linux/arm64`."},
					"container_runtime": schema.StringAttribute{Computed: true, MarkdownDescription: "The container runtime and its version, such as `containerd://2.2.0`."},
					"allocatable":       schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What pods can have of it, by resource. What already runs there is not taken off."},
				}},
			},
			"admitted": nameList("The names of the nodes that the pod can land on."),
			"excluded": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The nodes that it cannot land on.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":   schema.StringAttribute{Computed: true, MarkdownDescription: "The name."},
					"reason": schema.StringAttribute{Computed: true, MarkdownDescription: "The first reason found, in the order cordon, node selector, taints."},
				}},
			},
			"platforms":             nameList("The platforms that images are needed for: those of the nodes that an ordinary pod can land on, and of the admitted ones, as far as images are known for them."),
			"skipped_architectures": nameList("The architectures among these nodes that no image is known for."),
			"schedulable_nodes":     schema.Int64Attribute{Computed: true, MarkdownDescription: "How many nodes the platforms were read from, those with a skipped architecture included."},
			"fits": schema.MapAttribute{
				Computed: true, ElementType: types.ListType{ElemType: types.StringType},
				MarkdownDescription: "For each size, the names of the admitted nodes whose allocatable holds it. A node that reports none is not among them.",
			},
			"report": schema.StringAttribute{Computed: true, MarkdownDescription: "All this as text, for an output."},
		}),
	}
}

func readNodes(ctx context.Context, c *cluster.Cluster, model *nodesModel, diagnostics *diag.Diagnostics) error {
	sizes, err := sizesOf(ctx, model.Sizes)
	if err != nil {
		return err
	}
	nodes, err := preflight.Nodes(ctx, c)
	if err != nil {
		return err
	}
	placement := placementOf(ctx, "", model.NodeSelector, model.Tolerations)
	admitted, excluded := placement.Partition(nodes)
	// A refusal of the platforms is a fact of the moment here: it goes into the warning.
	platforms, refusal := preflight.DerivePlatforms(placement, nodes)

	model.fill(nodes, admitted, excluded, platforms)
	var summary []string
	if refusal != nil {
		diagnostics.AddWarning(fmt.Sprintf("No platform can be read from the nodes of cluster %q", c.Name()), refusal.Error())
		summary = append(summary, refusal.Error())
	} else {
		summary = append(summary, platforms.String())
	}
	for _, architecture := range platforms.SkippedArchitectures {
		diagnostics.AddWarning(fmt.Sprintf("Nodes of architecture %s are skipped on cluster %q", architecture, c.Name()), platforms.String())
	}
	checks := []preflight.Check{preflight.CheckNodes(placement, nodes)}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		fits, _ := sizes[name].Fits(admitted)
		model.Fits[name] = append([]string{}, fits...)
		checks = append(checks, preflight.CheckSize(placement, name, sizes[name], admitted))
	}
	for _, check := range checks {
		at := path.Root("node_selector")
		if size, ok := strings.CutPrefix(check.Name, "sizes/"); ok {
			at = path.Root("sizes").AtMapKey(size)
		}
		addCheck(diagnostics, c, check, at)
		summary = append(summary, check.Message)
	}
	model.Report = types.StringValue(nodesTable(nodes, excluded) + "\n\n" + strings.Join(summary, "\n"))
	return nil
}

// fill sets the outputs; empty is a result, which null would not be.
func (m *nodesModel) fill(nodes, admitted []corev1.Node, excluded []preflight.Excluded, platforms preflight.Platforms) {
	m.Nodes, m.Admitted, m.Excluded, m.Fits = []nodeModel{}, []string{}, []excludedModel{}, map[string][]string{}
	for i := range nodes {
		node := &nodes[i]
		allocatable := map[string]string{}
		for name, quantity := range node.Status.Allocatable {
			allocatable[string(name)] = quantity.String()
		}
		m.Nodes = append(m.Nodes, nodeModel{
			Name: types.StringValue(node.Name), Platform: types.StringValue(preflight.PlatformOf(node)),
			ContainerRuntime: types.StringValue(node.Status.NodeInfo.ContainerRuntimeVersion), Allocatable: allocatable,
		})
	}
	for i := range admitted {
		m.Admitted = append(m.Admitted, admitted[i].Name)
	}
	for _, node := range excluded {
		m.Excluded = append(m.Excluded, excludedModel{Name: types.StringValue(node.Name), Reason: types.StringValue(node.Reason)})
	}
	m.Platforms = append([]string{}, platforms.Names...)
	m.SkippedArchitectures = append([]string{}, platforms.SkippedArchitectures...)
	m.SchedulableNodes = types.Int64Value(int64(platforms.SchedulableNodes))
}

func nodesTable(nodes []corev1.Node, excluded []preflight.Excluded) string {
	reasons := map[string]string{}
	for _, node := range excluded {
		reasons[node.Name] = node.Reason
	}
	rows := [][]string{{"node", "platform", "runtime", "memory", "cpu", "admitted"}}
	for i := range nodes {
		node := &nodes[i]
		verdict := "yes"
		if reason := reasons[node.Name]; reason != "" {
			verdict = "no: " + reason
		}
		rows = append(rows, []string{
			node.Name, preflight.PlatformOf(node), node.Status.NodeInfo.ContainerRuntimeVersion,
			node.Status.Allocatable.Memory().String(), node.Status.Allocatable.Cpu().String(), verdict,
		})
	}
	return table(rows)
}
