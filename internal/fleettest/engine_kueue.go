package fleettest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// KueueNamespace is where Kueue is usually installed.
const KueueNamespace = "kueue-system"

// kueueVisibility is the port of the aggregated API visibility.kueue.x-k8s.io of Kueue's container.
const kueueVisibility = 8082

var kueueKind = managerKind{
	engine: EngineKueue,
	title:  "Kueue",
	programs: []managerProgram{
		{version: "0.15.0", name: "kueue-0.15"},
		{version: "0.17.0", name: "kueue"},
	},
	deployment: "kueue-controller-manager",
	container:  "manager",
	labels:     map[string]string{"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"},
	configure:  configureKueue,
}

// Kueue is the manager of the spec's EngineKueue, or nil.
func (c *Cluster) Kueue() *Manager { return c.manager(EngineKueue) }

func configureKueue(_ context.Context, m *Manager, program managerProgram, config map[string]any, args []string) ([]string, error) {
	// A pod finds its namespace in a file.
	if _, set := config["namespace"]; !set {
		config["namespace"] = m.deployment.Namespace
	}
	if program.version == "0.15.0" {
		// Where 0.15 serves the API is fixed, so two clusters could not.
		return withoutVisibility(config, args)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	m.local[kueueVisibility] = port
	if config["apiVersion"] == "config.kueue.x-k8s.io/v1beta2" {
		return args, unstructured.SetNestedMap(config, map[string]any{"bindAddress": "127.0.0.1", "bindPort": int64(port)}, "visibilityServer")
	}
	return append(args, fmt.Sprintf("--visibility-server-port=%d", port)), nil
}

// withoutVisibility turns a feature off in the place where the others are set; there must not be two.
func withoutVisibility(config map[string]any, args []string) ([]string, error) {
	const feature = "VisibilityOnDemand"
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--feature-gates=") {
			args[i] = arg + "," + feature + "=false"
			return args, nil
		}
	}
	return args, unstructured.SetNestedField(config, false, "featureGates", feature)
}
