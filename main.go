// Command terraform-provider-berth serves the provider to OpenTofu and Terraform.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"k8s.io/klog/v2"

	"github.com/berthdev/terraform-provider-berth/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	var forDebugger bool
	flag.BoolVar(&forDebugger, "debug", false, "serve for a debugger: print TF_REATTACH_PROVIDERS and stay")
	flag.Parse()

	// client-go logs what credential plugins print, which may be a secret; what matters of it is in our diagnostics.
	klog.SetLogger(logr.Discard())
	quietUnheardLogs()
	if os.Getenv("GOGC") == "" {
		// The process lives for one plan or apply: fewer collections make it about a tenth faster, for some MB more.
		debug.SetGCPercent(200)
	}

	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		// Both registries know the provider by this name; the host is the runner's own default.
		Address: "registry.opentofu.org/berthdev/berth",
		Debug:   forDebugger,
	})
	if err != nil {
		log.Fatal(err)
	}
}

// quietUnheardLogs turns off the plugin libraries' own log where no one asked for a log. Without a level they write every
// call at TRACE, for the runner to parse and throw away: a third of the time of a plan over 100 resources.
func quietUnheardLogs() {
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "TF_LOG") {
			return
		}
	}
	if err := os.Setenv("TF_LOG_SDK", "off"); err != nil {
		log.Print(err) // the provider works as well, only slower
	}
}
