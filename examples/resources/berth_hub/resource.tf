# Kueue runs on the hub, with multiKueue.origin and integrations.frameworks set in its configuration.
resource "berth_hub" "main" {
  cluster             = "hub"
  tenant_namespace    = "forecasting"
  workload_namespaces = ["forecasting", "forecasting-batch"]
  frameworks          = ["batch/job", "jobset.x-k8s.io/jobset"]

  # What may be dispatched at a time, over all workers.
  scheduling = {
    quotas = { cpu = "1000", memory = "4000Gi", "nvidia.com/gpu" = "64" }

    # Whatever else the queue shall say.
    overlays = [{
      kind  = "ClusterQueue"
      patch = <<-YAML
        spec:
          queueingStrategy: BestEffortFIFO
          preemption:
            withinClusterQueue: LowerPriority
      YAML
    }]
  }
}
