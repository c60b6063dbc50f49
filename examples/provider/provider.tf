terraform {
  required_providers {
    berth = {
      source = "berthdev/berth"
    }
  }
}

provider "berth" {
  # On every ownership mark: one for each state.
  owner = "platform-prod"

  clusters = {
    # A context of a file. The file's current context has no say.
    shared = {
      kubeconfig_path = "~/.kube/config"
      context         = "shared"
    }

    # The content of a kubeconfig, which may come from a cluster that is built in the same apply.
    eu-1 = {
      kubeconfig = var.eu_1_kubeconfig
    }

    # An address with a credential plugin, whose environment no other entry sees.
    us-1 = {
      host                   = "https://us-1.example.com:6443"
      cluster_ca_certificate = var.us_1_ca_certificate
      exec = {
        api_version = "client.authentication.k8s.io/v1"
        command     = "aws"
        args        = ["eks", "get-token", "--cluster-name", "us-1"]
        env         = { AWS_PROFILE = "platform" }
      }
    }
  }

  # Mirrors of chart repositories, and what they ask for.
  charts = {
    repository_overrides = { "https://charts.example.com" = "oci://registry.example.com/charts" }
    credentials          = { "oci://registry.example.com" = { username = "berth", password = var.registry_password } }
  }
}

variable "registry_password" {
  type      = string
  ephemeral = true
}

variable "eu_1_kubeconfig" {
  type      = string
  ephemeral = true
}

variable "us_1_ca_certificate" {
  type = string
}
