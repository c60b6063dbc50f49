// Command terraform-provider-berth serves the provider to OpenTofu and Terraform.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/go-logr/logr"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"k8s.io/klog/v2"

	"github.com/berthdev/terraform-provider-berth/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	var debug bool
	flag.BoolVar(&debug, "debug", false, "serve for a debugger: print TF_REATTACH_PROVIDERS and stay")
	flag.Parse()

	// client-go logs what credential plugins print, which may be a secret; what matters of it is in our diagnostics.
	klog.SetLogger(logr.Discard())

	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		// Both registries know the provider by this name; the host is the runner's own default.
		Address: "registry.opentofu.org/berthdev/berth",
		Debug:   debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
