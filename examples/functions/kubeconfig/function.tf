# A large kubeconfig, reduced to one context: what leaves this machine holds the credentials of one cluster only.
locals {
  shared = provider::berth::kubeconfig({ content = file("${path.module}/kubeconfig.yaml"), context = "shared" })
}

# Built of what a cloud hands out.
output "eu_1" {
  value = provider::berth::kubeconfig({
    name                   = "eu-1"
    host                   = "https://203.0.113.10"
    cluster_ca_certificate = var.eu_1_ca
    exec = {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--cluster-name", "eu-1"]
      env         = { AWS_PROFILE = "platform" }
    }
  })
  sensitive = true
}
