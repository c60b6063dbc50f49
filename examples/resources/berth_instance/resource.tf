resource "berth_priority_class" "sandbox" {
  cluster           = "shared"
  name              = "batch-low"
  value             = 1000
  preemption_policy = "Never"
  description       = "Sandboxes: preempted by nothing ordinary, preempting nothing"
}

# Sandboxes run on the pool of nodes that is labelled and tainted pool=agents.
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

  # They are made once the namespace is there; `conditions` tells when they are found.
  required_secrets = [{ name = "model", keys = ["token"] }]
}

# In a namespace that exists already: it keeps its UID, and a destroy leaves it there.
resource "berth_instance" "settled" {
  cluster         = "shared"
  name            = "settled"
  namespace       = "existing"
  adopt           = true
  platforms       = ["linux/amd64"]
  deletion_policy = "retain"
}
