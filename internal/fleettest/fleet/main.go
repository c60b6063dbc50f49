// Command fleet boots Kubernetes clusters on this machine by hand, the same that the tests use, for trying berth
// without a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

const usage = `fleet boots Kubernetes clusters on this machine: real control planes as ordinary processes on loopback,
with simulated nodes (kwok), so that pods are scheduled and become Ready without anything running.

  go run ./internal/fleettest/fleet up -clusters hub,eu-1

It prints the kubeconfig of each cluster and one for all of them, stays until it is interrupted (Ctrl-C),
and then stops everything and removes all files, as it also does when it is killed. Programs that are
missing in .bin are built first, which takes minutes the first time.

  fleet up [flags]

`

const nodeHelp = `a node, as KEY=VALUE pairs with commas between them; repeat the flag for more nodes:
  name=n1            required
  cluster=hub        only on this cluster (all of them otherwise)
  arch=arm64         architecture (amd64)
  cpu=8 memory=16Gi pods=110
                     what is allocatable (8, 32Gi, 110)
  label=pool=agents  repeatable
  taint=pool=agents:NoSchedule
                     repeatable
  extended=nvidia.com/gpu=1
                     repeatable, a further allocatable resource
  runtime=containerd://2.2.0
                     container runtime version
  unschedulable=true cordoned
`

func main() {
	// Every way of being told to go ends the same; a SIGKILL is the business of the fleet's watchdog.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help" {
		args = []string{"up", "-h"}
	}
	if args[0] != "up" {
		return fmt.Errorf("unknown command %q; there is only \"up\" (see fleet -h)", args[0])
	}
	o, err := parse(args[1:], stderr)
	if err != nil {
		return err
	}
	return up(ctx, o, stdout)
}

// options are what the command line asks for.
type options struct {
	specs  []fleettest.ClusterSpec
	dir    string
	charts string
	// queueing has the charts of Kueue and JobSet written too.
	queueing bool
}

// parse reads the flags of "up".
func parse(args []string, stderr io.Writer) (options, error) {
	flags := flag.NewFlagSet("fleet up", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	var (
		nodes, classes repeated
		clusters       = flags.String("clusters", "shared", "`names` of the clusters, with commas between them")
		version        = flags.String("kubernetes", "", "Kubernetes `version` that the API servers report, such as v1.34.2-gke.100 (what they are, where empty)")
		latency        = flags.Duration("latency", 0, "`time` to add to each request, such as 50ms, by a proxy in front of each API server")
		light          = flags.Bool("light", false, "etcd and API server only: no controllers, nothing is scheduled, quicker and half the memory")
		balancer       = flags.String("load-balancer", "ip", "what Services of type LoadBalancer get: `kind` ip, hostname or none")
		engines        = flags.String("engines", "", "`names` of controllers that run as real processes, with commas between them, NAME@CLUSTER for one\ncluster only; there are argocd, Argo CD in the namespace argocd, and, once their charts are\ninstalled, knative, the Knative operator in the namespace knative-operator, kueue and jobset")
		archives       = flags.String("charts", "", "`directory` to which the charts of Knative Serving are written, for charts.repository_overrides\nof the provider: the Knative operator's, "+strings.Join(charts.ServingOperators, " and ")+",\nand a stand-in for Traefik's, "+charts.ServingTraefik+"; and, where these engines run, those of Kueue, "+strings.Join(charts.QueueingKueue, " and ")+",\nand JobSet, "+charts.QueueingJobSet)
		webhooks       = flags.Bool("webhooks", false, "call admission webhooks, which only the engines kueue and jobset answer; any other webhook that is\ninstalled blocks its kinds")
		dir            = flags.String("dir", "", "`directory` for all files, created and at the end removed (a temporary one, where empty).\nIts file \"kubeconfig\" appears when everything is up, for scripts to wait for")
	)
	flags.Var(&nodes, "node", nodeHelp)
	flags.Var(&classes, "storage-class", "`name` of a StorageClass whose claims bind; repeatable, the first one is the default class")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("argument %q not understood: all arguments of up are flags (see fleet -h)", flags.Arg(0))
	}

	o := options{dir: *dir, charts: *archives}
	for name := range strings.SplitSeq(*clusters, ",") {
		spec := fleettest.ClusterSpec{Name: strings.TrimSpace(name), Version: *version, ControlPlaneOnly: *light, AdmissionWebhooks: *webhooks}
		if *latency > 0 {
			spec.Proxy = &fleettest.ProxyOptions{Latency: *latency}
		}
		switch *balancer {
		case "ip", "hostname":
			spec.LoadBalancer = fleettest.LoadBalancerKind(*balancer)
		case "none":
		default:
			return o, fmt.Errorf("-load-balancer %q: want ip, hostname or none", *balancer)
		}
		for i, class := range classes {
			spec.StorageClasses = append(spec.StorageClasses, fleettest.StorageClassSpec{Name: class, Default: i == 0})
		}
		o.specs = append(o.specs, spec)
	}
	for engine := range strings.FieldsFuncSeq(*engines, func(r rune) bool { return r == ',' }) {
		engine, cluster, one := strings.Cut(strings.TrimSpace(engine), "@")
		found := false
		for i := range o.specs {
			if !one || cluster == o.specs[i].Name {
				found = true
				o.specs[i].Engines = append(o.specs[i].Engines, fleettest.Engine(engine))
				o.queueing = o.queueing || fleettest.Engine(engine) == fleettest.EngineKueue || fleettest.Engine(engine) == fleettest.EngineJobSet
			}
		}
		if !found {
			return o, fmt.Errorf("-engines %q: no cluster %q; the clusters are %s", *engines, cluster, *clusters)
		}
	}
	for _, text := range nodes {
		node, cluster, err := parseNode(text)
		if err != nil {
			return o, fmt.Errorf("-node %q: %w", text, err)
		}
		found := false
		for i := range o.specs {
			if cluster == "" || cluster == o.specs[i].Name {
				found = true
				o.specs[i].Nodes = append(o.specs[i].Nodes, node)
			}
		}
		if !found {
			return o, fmt.Errorf("-node %q: no cluster %q; the clusters are %s", text, cluster, *clusters)
		}
	}
	return o, nil
}

// up boots the fleet, tells about it, and waits for ctx to end.
func up(ctx context.Context, o options, stdout io.Writer) (err error) {
	began := time.Now()
	if o.charts != "" {
		if err := charts.Serving(ctx, o.charts); err != nil {
			return err
		}
	}
	if o.charts != "" && o.queueing {
		if err := charts.Queueing(ctx, o.charts); err != nil {
			return err
		}
	}
	var fleet *fleettest.Fleet
	if o.dir == "" {
		fleet, err = fleettest.Start(ctx, o.specs...)
	} else {
		fleet, err = fleettest.StartIn(ctx, o.dir, o.specs...)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	merged, err := fleet.MergeKubeconfigs()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tVERSION\tSERVER\tKUBECONFIG")
	for _, c := range fleet.Clusters() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Name(), c.Version(), c.Server(), c.Kubeconfig())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	root, err := fleettest.Root()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, `
Up after %s. One kubeconfig with a context for each cluster:

  export KUBECONFIG=%s
  %s get nodes

Logs are in %s. Ctrl-C stops everything and removes it.
`, time.Since(began).Round(100*time.Millisecond), merged, filepath.Join(root, ".bin", "kubectl"), filepath.Join(fleet.Dir, "<cluster>", "*.log"))
	<-ctx.Done()
	fmt.Fprintln(stdout, "\nstopping ...")
	return nil
}

// repeated is a flag that may be given several times.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, " ") }

// Set appends; it never fails.
func (r *repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}
