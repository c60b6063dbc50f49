// Command terraform-provider-berth serves the provider to OpenTofu and Terraform.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/berthdev/terraform-provider-berth/internal/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	var debug bool
	flag.BoolVar(&debug, "debug", false, "serve for a debugger: print TF_REATTACH_PROVIDERS and stay")
	flag.Parse()

	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		// Both registries know the provider by this name; the host is the runner's own default.
		Address: "registry.opentofu.org/berthdev/berth",
		Debug:   debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
