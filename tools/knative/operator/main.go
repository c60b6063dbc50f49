// Command operator is the Knative operator: the controllers and the main of knative.dev/operator/cmd/operator, but for
// the server of health probes. That one takes the fixed port 8080 on all addresses, and no flag or variable turns it
// off, so that two operators could not run on one machine, nor one beside whatever else has the port.
package main

import (
	"knative.dev/operator/pkg/reconciler/knativeeventing"
	"knative.dev/operator/pkg/reconciler/knativeserving"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/signals"
)

func main() {
	ctx := sharedmain.WithHealthProbesDisabled(signals.NewContext())
	sharedmain.MainWithContext(ctx, "knative-operator", knativeserving.NewController, knativeeventing.NewController)
}
