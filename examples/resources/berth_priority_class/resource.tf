# Batch pods wait for room instead of evicting others.
resource "berth_priority_class" "batch" {
  cluster           = "shared"
  name              = "batch-low"
  value             = 1000
  preemption_policy = "Never"
  description       = "Batch: preempted by nothing ordinary, preempting nothing"
}

# A class that somebody else created: taken over as it is, and left there by a destroy.
resource "berth_priority_class" "critical" {
  cluster = "shared"
  name    = "platform-critical"
  value   = 100000
  adopt   = true
}
