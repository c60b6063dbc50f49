package argocd

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Registered is a cluster as the management cluster's Argo CD knows it (I3).
type Registered struct {
	// Name is what Argo CD calls it, Secret the name of the Secret that registers it; the management cluster has none.
	Name, Secret, Server string
	// Management tells that it is the cluster that Argo CD runs in.
	Management bool
	// Provider, Flavor, Region and Org are what the registration says.
	Provider, Flavor, Region, Org string
	// Version and Nodes are as they were when the registration was applied last, and those of now for the management
	// cluster; "" and -1 where they are not known.
	Version string
	Nodes   int
	// Berth tells that a configuration of berth applied the registration.
	Berth bool
	// Applications deploy to it, and Zones are those of them that are environments.
	Applications, HealthyApplications, Zones, HealthyZones int
	// Health is the worst of its Applications', in Argo CD's words; "" where it has none.
	Health string
	// Step is where a removal has got to, "" when there is none.
	Step string
}

// healths are Argo CD's, the worst first. Source: gitops-engine's health package.
var healths = []string{"Degraded", "Missing", "Unknown", "Progressing", "Suspended", "Healthy"}

// ListClusters gives the clusters that an Argo CD deploys to, from its Secrets and its Applications: the management cluster
// first, and the others by name (I3). No workload cluster is asked anything.
func ListClusters(ctx context.Context, management *cluster.Cluster, namespace string) ([]Registered, error) {
	secrets, err := management.SelectedIn(ctx, cluster.Secrets, namespace, clusterSelector)
	if err != nil {
		return nil, err
	}
	all, served, err := listApplications(ctx, fromSnapshot(management), namespace)
	if err != nil {
		return nil, err
	}
	if !served {
		return nil, &cluster.Problem{
			Attribute: "management", Summary: "There is no Argo CD on cluster " + strconv.Quote(management.Name()),
			Detail: "Its API server does not serve Applications (" + Applications.Group + "/" + Applications.Version + "). Name the cluster that Argo CD runs in.",
		}
	}
	self := Registered{Name: InClusterName, Server: InClusterServer, Management: true, Nodes: -1}
	var others []Registered
	for _, secret := range secrets {
		one := registered(secret)
		if cluster.SameServer(one.Server, InClusterServer) {
			one.Management = true
			self = one
			continue
		}
		others = append(others, one)
	}
	if err := self.ask(ctx, management); err != nil {
		return nil, err
	}
	slices.SortFunc(others, func(a, b Registered) int { return strings.Compare(a.Name, b.Name) })
	clusters := append([]Registered{self}, others...)
	for i := range clusters {
		clusters[i].count(all)
	}
	return clusters, nil
}

// registered reads a cluster's Secret.
func registered(secret *unstructured.Unstructured) Registered {
	labels, annotations := secret.GetLabels(), secret.GetAnnotations()
	_, owned := kube.ParseOwner(secret)
	one := Registered{
		Name: secretField(secret, "name"), Secret: secret.GetName(), Server: secretField(secret, "server"),
		Provider: labels[LabelProvider], Flavor: labels[LabelFlavor], Region: labels[LabelRegion], Org: labels[LabelOrg],
		Version: annotations[AnnotationVersion], Nodes: -1, Berth: owned, Step: annotations[AnnotationRemovalStep],
	}
	if one.Name == "" {
		one.Name = one.Server // as Argo CD takes it
	}
	if nodes, err := strconv.Atoi(annotations[AnnotationNodes]); err == nil {
		one.Nodes = nodes
	}
	return one
}

// ask asks the management cluster for what no Secret says. Who may not list its nodes does not know their number.
func (r *Registered) ask(ctx context.Context, management *cluster.Cluster) error {
	info, err := management.Version(ctx)
	if err != nil {
		return err
	}
	r.Version = info.GitVersion
	nodes, err := management.List(ctx, cluster.Nodes)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Nodes = len(nodes)
	return nil
}

// count counts the Applications that deploy to the cluster.
func (r *Registered) count(all []Application) {
	worst := len(healths)
	for _, one := range all {
		if !one.deploysTo(r.Name, r.Server) && !(r.Management && one.home()) {
			continue
		}
		healthy := one.Health == "Healthy"
		r.Applications++
		if healthy {
			r.HealthyApplications++
		}
		if one.Zone != "" {
			r.Zones++
			if healthy {
				r.HealthyZones++
			}
		}
		rank := slices.Index(healths, one.Health)
		if rank < 0 {
			rank = slices.Index(healths, "Unknown")
		}
		if rank < worst {
			worst, r.Health = rank, healths[rank]
		}
	}
}
