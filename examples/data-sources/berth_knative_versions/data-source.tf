# Which versions of Knative Serving the cluster can have, the newest first, and with which chart of the operator.
data "berth_knative_versions" "eu" {
  cluster = "eu-1"
}

output "newest" {
  value = try(data.berth_knative_versions.eu.versions[0], null)
}

output "operator_charts" {
  value = data.berth_knative_versions.eu.charts
}

# From a mirror of one's own; that the cluster is not older than Kubernetes 1.32 is asked for here.
data "berth_knative_versions" "mirrored" {
  cluster              = "eu-1"
  repository           = "https://charts.example.com"
  min_kubernetes_minor = 32
}
