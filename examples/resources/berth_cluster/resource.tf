# A ServiceAccount for Argo CD: a cloud sign-in ends within the hour, its token does not.
resource "berth_cluster_access" "edge" {
  cluster = "edge"
}

resource "berth_cluster" "edge" {
  management = "mgmt" # where Argo CD runs
  cluster    = "edge" # the workload cluster
  name       = "edge-us-east-1"
  access     = berth_cluster_access.edge.id

  # Deploys every Application in the directory, and keeps it as the repository has it.
  app_of_apps = {
    repo_url = "https://git.example.com/platform/gitops.git"
    revision = "main"
    path     = "registry/clusters/edge-us-east-1/components"
  }

  # What ApplicationSet generators select clusters by.
  secret_labels = { tier = "edge" }

  # Destroy is refused until this is false and applied.
  deletion_protection = true
  removal             = { step_timeout = "15m" }
}
