# Refuses a cluster that cannot run sandboxes, with one error for each thing that is wrong.
data "berth_preflight" "shared" {
  cluster            = "shared"
  kubernetes_version = ">= 1.35"
  features           = ["PodLevelResources", "ImageVolume"]

  permissions = [
    { verb = "create", resource = "namespaces" },
    { verb = "patch", group = "apps", resource = "daemonsets", namespace = "my-instance" },
  ]
  namespaces = [{ name = "my-instance", pod_security = "baseline", may_be_missing = true }]

  # Where the pods are to land, and how large they are.
  derive_platforms  = true
  container_runtime = true
  node_selector     = { pool = "agents" }
  tolerations       = [{ key = "pool", operator = "Equal", value = "agents", effect = "NoSchedule" }]
  sizes             = { hold = { memory = "8Gi", cpu = "4" } }
  quota_namespace   = "my-instance"

  default_storage_class = true
  secrets               = [{ namespace = "my-instance", name = "git", keys = ["token"] }]
  endpoints             = [{ url = "https://registry.example.com/v2/", statuses = [200, 401] }]
}

output "preflight" {
  value = data.berth_preflight.shared.report
}

# Looks, and decides by itself what to do about it.
data "berth_preflight" "candidate" {
  cluster            = "candidate"
  kubernetes_version = "1.35"
  on_failure         = "report"
}

output "candidate_failures" {
  value = [for check in data.berth_preflight.candidate.checks : "${check.name}: ${check.message}" if check.status == "fail"]
}
