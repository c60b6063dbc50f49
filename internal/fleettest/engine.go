package fleettest

import (
	"fmt"
	"slices"
)

// Engine is a controller, or a set of them, that the harness runs as processes in place of pods, which are only simulated.
type Engine string

const (
	// EngineKnative is the Knative operator in the namespace KnativeNamespace; see Cluster.StartKnative for another one
	// and for what it does, and Cluster.Knative.
	EngineKnative Engine = "knative"
	// EngineArgoCD is Argo CD in the namespace ArgoCDNamespace, which is installed and runs when the boot returns; see
	// ArgoCD for what it does, and Cluster.ArgoCD.
	EngineArgoCD Engine = "argocd"
	// EngineKueue is Kueue's controller manager, in whatever namespace its chart is installed; see Manager for what it
	// does, and Cluster.Kueue.
	EngineKueue Engine = "kueue"
	// EngineJobSet is JobSet's controller, likewise; see Cluster.JobSet.
	EngineJobSet Engine = "jobset"
)

var engines = []Engine{EngineKnative, EngineArgoCD, EngineKueue, EngineJobSet}

func (s ClusterSpec) validateEngines() error {
	for _, engine := range s.Engines {
		if !slices.Contains(engines, engine) {
			return fmt.Errorf("unknown engine %q; there are %q", engine, engines)
		}
	}
	for _, kind := range s.managerKinds() {
		if s.ControlPlaneOnly {
			return fmt.Errorf("engine %q needs what makes Deployments available, which a ControlPlaneOnly cluster has not", kind.engine)
		}
	}
	if !slices.Contains(s.Engines, EngineKnative) {
		return nil
	}
	if s.ControlPlaneOnly {
		return fmt.Errorf("engine %q needs what makes Deployments available, which a ControlPlaneOnly cluster has not", EngineKnative)
	}
	if s.AdmissionWebhooks {
		return fmt.Errorf("engine %q installs admission webhooks, which simulated pods can't answer: leave AdmissionWebhooks off", EngineKnative)
	}
	return nil
}
