# The third part of `make demo`: the second cluster is registered with the Argo CD of the first one.

terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}

variable "kubeconfig_path" {
  type        = string
  description = "A kubeconfig with a context for each cluster."
}

variable "repo_url" {
  type        = string
  description = "The repository that Argo CD deploys from."
}

variable "deletion_protection" {
  type        = bool
  description = "Whether a destroy is refused."
  default     = true
}

provider "berth" {
  owner = "demo"
  clusters = {
    mgmt = { kubeconfig_path = var.kubeconfig_path, context = "shared" }
    eu-1 = { kubeconfig_path = var.kubeconfig_path, context = "eu-1" }
  }
}

resource "berth_cluster_access" "eu" {
  cluster = "eu-1"
}

resource "berth_cluster" "eu" {
  management = "mgmt"
  cluster    = "eu-1"
  name       = "eu-1"
  access     = berth_cluster_access.eu.id

  app_of_apps = {
    repo_url = var.repo_url
    revision = "main"
  }
  secret_labels       = { tier = "edge" }
  deletion_protection = var.deletion_protection
}

output "registered" {
  value = "Kubernetes ${berth_cluster.eu.kubernetes_version}, Secret ${berth_cluster.eu.argocd_secret}, root Application ${berth_cluster.eu.root_application}"
}
