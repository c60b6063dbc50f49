# Which nodes can run a pod of the pool, which can't and why, and where the sizes fit.
data "berth_nodes" "agents" {
  cluster       = "shared"
  node_selector = { pool = "agents" }
  tolerations   = [{ key = "pool", operator = "Equal", value = "agents", effect = "NoSchedule" }]
  sizes = {
    small = {} # the default: 2Gi and 1 cpu
    hold  = { memory = "8Gi", cpu = "4" }
  }
}

output "agents" {
  value = data.berth_nodes.agents.report
}

output "why_not" {
  value = { for node in data.berth_nodes.agents.excluded : node.name => node.reason }
}
