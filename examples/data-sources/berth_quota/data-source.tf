# What the owner of the cluster allows in the namespace, how much is left of it, and what waits.
data "berth_quota" "my_instance" {
  cluster        = "shared"
  namespace      = "my-instance"
  priority_class = "batch-low"
  sizes          = { hold = { memory = "8Gi", cpu = "4" } }
}

output "room_for_hold" {
  value = data.berth_quota.my_instance.room["hold"].count
}

output "waiting" {
  value = [for wait in data.berth_quota.my_instance.waiting : "${wait.object}: ${wait.message}"]
}
