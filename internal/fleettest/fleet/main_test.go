package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{
		"-clusters", "a, b", "-kubernetes", "v1.34.0", "-latency", "50ms", "-light", "-load-balancer", "none",
		"-storage-class", "standard", "-storage-class", "fast",
		"-node", "name=n1,arch=arm64,label=pool=agents,label=zone=z,taint=pool=agents:NoSchedule,cpu=4,memory=16Gi",
		"-node", "name=n2,cluster=b,extended=nvidia.com/gpu=1,runtime=containerd://1.7.20,pods=10,unschedulable=true",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n1 := fleettest.NodeSpec{
		Name: "n1", Architecture: "arm64", CPU: "4", Memory: "16Gi", Labels: map[string]string{"pool": "agents", "zone": "z"},
		Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
	}
	n2 := fleettest.NodeSpec{Name: "n2", Extended: map[string]string{"nvidia.com/gpu": "1"}, Runtime: "containerd://1.7.20", Pods: "10", Unschedulable: true}
	spec := fleettest.ClusterSpec{
		Name: "a", Version: "v1.34.0", ControlPlaneOnly: true, Proxy: &fleettest.ProxyOptions{Latency: 50 * time.Millisecond},
		StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}, {Name: "fast"}},
		Nodes:          []fleettest.NodeSpec{n1},
	}
	other := spec
	other.Name, other.Nodes = "b", []fleettest.NodeSpec{n1, n2}
	if want := []fleettest.ClusterSpec{spec, other}; !reflect.DeepEqual(o.specs, want) {
		t.Errorf("got  %+v\nwant %+v", o.specs, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"up extra", `argument "extra" not understood`},
		{"down", `unknown command "down"`},
		{"up -node arch=arm64", "the node has no name: add name="},
		{"up -node name=n,color=red", "color: unknown key; known are name,"},
		{"up -node name=n,taint=a=b", "want KEY=VALUE:EFFECT with the effect NoSchedule"},
		{"up -node name=n,taint=a=b:Sometimes", "want KEY=VALUE:EFFECT"},
		{"up -node name", `"name" is no KEY=VALUE`},
		{"up -node name=n,cluster=x", `no cluster "x"; the clusters are shared`},
		{"up -engines knative,flux", `cluster "shared": unknown engine "flux"; there are ["knative" "argocd"`},
		{"up -engines knative -light", `engine "knative" needs what makes Deployments available`},
		{"up -engines argocd@hub", `-engines "argocd@hub": no cluster "hub"; the clusters are shared`},
		{"up -load-balancer dns", "want ip, hostname or none"},
		{"up -clusters A", `cluster name "A": want lower-case`},
		{"up -clusters a,a", `two clusters are named "a"`},
	} {
		if err := run(t.Context(), strings.Fields(test.args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.args, err, test.want)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), nil, io.Discard, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "taint=pool=agents:NoSchedule") {
		t.Errorf("help: %v\n%s", err, help.String())
	}
}

func TestParseEngines(t *testing.T) {
	o, err := parse([]string{"-clusters", "a,b", "-engines", "knative, argocd@b"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]fleettest.Engine{{fleettest.EngineKnative}, {fleettest.EngineKnative, fleettest.EngineArgoCD}} {
		if got := o.specs[i].Engines; !reflect.DeepEqual(got, want) {
			t.Errorf("engines of %s are %v, want %v", o.specs[i].Name, got, want)
		}
	}
}

// What it prints leads to the clusters, the charts are there by then, and an interrupt removes everything but them.
func TestUp(t *testing.T) {
	dir, archives := filepath.Join(t.TempDir(), "fleet"), filepath.Join(t.TempDir(), "charts")
	ctx, interrupt := context.WithCancel(t.Context())
	out, ended := new(bytes.Buffer), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"up", "-light", "-clusters", "a", "-dir", dir, "-charts", archives}, out, io.Discard)
	}()

	path := filepath.Join(dir, "kubeconfig")
	fleettest.Eventually(t, func(context.Context) error {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		_, err := os.Stat(path)
		return err
	})
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "a" || config.Contexts["a"] == nil {
		t.Errorf("contexts %v, current %q", config.Contexts, config.CurrentContext)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(archives, "*.tgz")); err != nil || len(found) != len(charts.ServingOperators)+1 {
		t.Errorf("the charts are %v: %v", found, err)
	}
	if text := out.String(); !strings.Contains(text, "export KUBECONFIG="+path) || !strings.Contains(text, filepath.Join(dir, "a", "kubeconfig")) {
		t.Errorf("printed %s", text)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
