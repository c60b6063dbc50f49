// Command argocd is Argo CD's controllers and repository server, each under the name that ARGOCD_BINARY_NAME gives, as
// github.com/argoproj/argo-cd/v3/cmd is, but without its API server and command line, which would take a fifth more to
// build.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	askpass "github.com/argoproj/argo-cd/v3/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/log"
)

var roles = map[string]func() *cobra.Command{
	"argocd-application-controller":    controller.NewCommand,
	"argocd-applicationset-controller": applicationset.NewCommand,
	"argocd-repo-server":               reposerver.NewCommand,
	"argocd-git-ask-pass":              askpass.NewCommand,
}

func main() {
	name := os.Getenv("ARGOCD_BINARY_NAME")
	role, found := roles[name]
	if !found {
		fmt.Fprintf(os.Stderr, "ARGOCD_BINARY_NAME is %q; it names what to run, such as argocd-repo-server\n", name)
		os.Exit(2)
	}
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	if err := role().Execute(); err != nil {
		os.Exit(1)
	}
}
