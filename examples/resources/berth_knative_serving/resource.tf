# All that it takes: the newest version that the cluster and the operator's repository offer, with Traefik in front.
resource "berth_knative_serving" "eu" {
  cluster = "eu-1"
}

# One version, a load balancer of the cloud in front, and an image from one's own registry.
resource "berth_knative_serving" "us" {
  cluster = "us-1"
  version = "1.15"

  ingress = {
    trusted_ips = ["10.0.0.0/24"]
    image       = "registry.example.com/mirror/traefik:v3.7.4"
    service_annotations = {
      "service.beta.kubernetes.io/aws-load-balancer-type"   = "external"
      "service.beta.kubernetes.io/aws-load-balancer-scheme" = "internal"
    }
  }

  timeouts = { create = "20m", update = "20m" }
}

output "functions_dns" {
  description = "Where the DNS of the functions has to lead: an IP (A, AAAA) or a hostname (CNAME)."
  value       = berth_knative_serving.eu.external_address
}

# A network without the internet: the charts come from a mirror (charts.repository_overrides of the provider), the CRDs
# from the operator.
resource "berth_knative_serving" "sealed" {
  cluster     = "sealed-1"
  version     = "1.15"
  crds_source = "operator"
}
