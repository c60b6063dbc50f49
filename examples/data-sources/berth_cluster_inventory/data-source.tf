# What the destroy of a registered cluster would take apart, and what stands against it.
data "berth_cluster_inventory" "edge" {
  management = "mgmt"
  cluster    = "edge"
  name       = "edge-us-east-1"
}

output "environments" {
  value = [for zone in data.berth_cluster_inventory.edge.zones : "${zone.product}/${zone.zone}: ${zone.sync}, ${zone.health}"]
}

output "waves" {
  value = { for wave in data.berth_cluster_inventory.edge.waves : wave.wave => [for app in wave.applications : app.name]... }
}

output "disks" {
  value = { for volume in data.berth_cluster_inventory.edge.volumes : volume.claim => "${volume.size} ${volume.handle}" }
}

output "report" {
  value = data.berth_cluster_inventory.edge.report
}
