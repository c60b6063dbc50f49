# The second part of `make demo`: a cluster that becomes one for functions, with Knative Serving and Traefik.

terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}

variable "kubeconfig_path" {
  type        = string
  description = "A kubeconfig with a context for the cluster."
}

variable "context" {
  type        = string
  description = "The context of the cluster in it."
}

variable "charts" {
  type        = string
  description = "A folder with the charts, in the place of their repositories."
}

variable "serving_version" {
  type        = string
  description = "The minor version of Serving; empty for the newest that the cluster and the charts offer."
  default     = ""
}

provider "berth" {
  owner = "demo"
  clusters = {
    eu-1 = { kubeconfig_path = var.kubeconfig_path, context = var.context }
  }
  charts = {
    repository_overrides = {
      "https://knative.github.io/operator" = var.charts
      "https://traefik.github.io/charts"   = var.charts
    }
  }
}

data "berth_knative_versions" "eu" {
  cluster = "eu-1"
}

resource "berth_knative_serving" "eu" {
  cluster     = "eu-1"
  version     = var.serving_version == "" ? null : var.serving_version
  crds_source = "operator" # nothing comes from the internet

  ingress = {
    trusted_ips         = ["10.0.0.0/24"]
    service_annotations = { "example.com/load-balancer" = "internal" }
  }
}

output "versions" {
  description = "What the cluster and the charts offer, the newest first."
  value       = data.berth_knative_versions.eu.versions
}

output "serving" {
  value = "Serving ${berth_knative_serving.eu.installed_version} of operator ${berth_knative_serving.eu.operator_version}: ${berth_knative_serving.eu.serving_status}"
}

output "external_address" {
  description = "Where DNS of the functions has to lead."
  value       = berth_knative_serving.eu.external_address
}
