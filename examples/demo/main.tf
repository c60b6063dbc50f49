# What `make demo` runs: check a shared cluster, then put an instance on it.

terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}

variable "kubeconfig_path" {
  type        = string
  description = "A kubeconfig with a context named shared."
}

provider "berth" {
  owner = "demo"
  clusters = {
    shared = { kubeconfig_path = var.kubeconfig_path, context = "shared" }
  }
}

data "berth_preflight" "shared" {
  cluster            = "shared"
  kubernetes_version = ">= 1.35"
  features           = ["PodLevelResources", "ImageVolume"]
  on_failure         = "error"

  derive_platforms  = true
  container_runtime = true
  node_selector     = { pool = "agents" }
  tolerations       = [{ key = "pool", operator = "Equal", value = "agents", effect = "NoSchedule" }]
  sizes             = { hold = { memory = "8Gi", cpu = "4" } }
}

resource "berth_priority_class" "sandbox" {
  cluster           = "shared"
  name              = "batch-low"
  value             = 1000
  preemption_policy = "Never"
  description       = "Sandboxes: preempted by nothing ordinary, preempting nothing"
}

resource "berth_instance" "this" {
  cluster = "shared"
  name    = "my-instance"

  registry       = "registry.example.com/team"
  sandbox_images = { default = "registry.example.com/team/sandbox:1" }

  sandbox = {
    node_selector = { pool = "agents" }
    tolerations   = [{ key = "pool", operator = "Equal", value = "agents", effect = "NoSchedule" }]
  }
  sizes            = { hold = { memory = "8Gi", cpu = "4" } }
  priority_classes = { sandbox = berth_priority_class.sandbox.name }
}

output "preflight" {
  description = "The report of the checks, for people."
  value       = data.berth_preflight.shared.report
}

output "sandbox_nodes" {
  value = berth_instance.this.sandbox_nodes
}
