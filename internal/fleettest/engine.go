package fleettest

import (
	"errors"
	"fmt"
)

// Engine is a controller that the harness runs as a process in place of its pod, which is only simulated.
type Engine string

// EngineKnative is the Knative operator in the namespace KnativeNamespace; see Cluster.StartKnative for another one and
// for what it does, and Cluster.Knative.
const EngineKnative Engine = "knative"

func (s ClusterSpec) validateEngines() error {
	for _, engine := range s.Engines {
		if engine != EngineKnative {
			return fmt.Errorf("unknown engine %q; there is only %q", engine, EngineKnative)
		}
	}
	if len(s.Engines) > 0 && s.ControlPlaneOnly {
		return errors.New("engines need what makes Deployments available, which a ControlPlaneOnly cluster has not")
	}
	if len(s.Engines) > 0 && s.AdmissionWebhooks {
		return errors.New("engines install admission webhooks, which simulated pods can't answer: leave AdmissionWebhooks off")
	}
	return nil
}
