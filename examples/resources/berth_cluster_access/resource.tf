# What Argo CD deploys with, and what berth_cluster takes as `access`.
resource "berth_cluster_access" "edge" {
  cluster = "edge"
}

# Fewer rights, a namespace of its own, and no token that lasts: each consumer mints one that expires.
resource "berth_cluster_access" "reader" {
  cluster         = "edge"
  namespace       = "fleet-readers"
  service_account = "reader"
  cluster_role    = "view"
  token_secret    = false
}
