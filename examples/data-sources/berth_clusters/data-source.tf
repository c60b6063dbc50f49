# Every cluster that the management cluster's Argo CD deploys to.
data "berth_clusters" "all" {
  management = "mgmt"
}

output "unhealthy" {
  value = [for c in data.berth_clusters.all.clusters : c.name if c.health != null && c.health != "Healthy"]
}

output "being_removed" {
  value = { for c in data.berth_clusters.all.clusters : c.name => c.removal_step if c.removal_step != null }
}

output "report" {
  value = data.berth_clusters.all.report
}
