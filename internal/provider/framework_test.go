package provider_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/provider"
)

// The schemas of provider, resources, data sources and functions are what the protocol allows.
func TestSchemas(t *testing.T) {
	t.Parallel()
	server, err := providerserver.NewProtocol6WithError(provider.New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, diagnostic := range schemas.Diagnostics {
		t.Errorf("%s: %s", diagnostic.Summary, diagnostic.Detail)
	}
	identities, err := server.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name := range schemas.ResourceSchemas {
		if identities.IdentitySchemas[name] == nil {
			t.Errorf("%s has no identity", name)
		}
	}
}

// The life of a resource as HashiCorp's own test framework checks it: after every step the plan is empty, and an import
// gives attribute for attribute what the state holds (J70).
func TestLifeInFramework(t *testing.T) {
	cluster := sharedCluster(t)
	tofu, err := tofutest.Executable(t.Context(), tofutest.Tofu)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"TF_ACC": "1", "TF_ACC_TERRAFORM_PATH": tofu, "TF_ACC_PROVIDER_HOST": "registry.opentofu.org",
		"TF_ACC_PROVIDER_NAMESPACE": "berthdev", "TF_CLI_CONFIG_FILE": "/dev/null", "CHECKPOINT_DISABLE": "1",
	} {
		t.Setenv(name, value)
	}
	name := unique("framework")
	config := func(description string) string {
		return providerBlock(unique("team-framework"), clusters{"shared": byPath(t, cluster.AdminKubeconfig())}) +
			class("this", name, fmt.Sprintf("description = %q", description))
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){
			"berth": providerserver.NewProtocol6WithError(provider.New("test")()),
		},
		Steps: []resource.TestStep{
			{
				Config:           config("first"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(this, plancheck.ResourceActionCreate)}},
				Check:            resource.TestCheckResourceAttr(this, "id", "shared/"+name),
			},
			{ResourceName: this, ImportState: true, ImportStateVerify: true, ImportStateVerifyIgnore: []string{"timeouts"}},
			{
				Config:           config("second"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(this, plancheck.ResourceActionUpdate)}},
			},
			{ResourceName: this, ImportState: true, ImportStateId: "elsewhere/" + name, ExpectError: regexp.MustCompile(`No cluster "elsewhere"`)},
		},
	})
}
