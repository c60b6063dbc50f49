# A chart from a repository. The plan says what it changes, object by object and field by field.
resource "berth_release" "shop" {
  cluster          = "shared"
  name             = "shop"
  namespace        = "shop"
  create_namespace = true

  chart = {
    repository = "https://charts.example.com"
    name       = "shop"
    version    = "1.4.0"
  }

  values = [yamlencode({
    replicas = 3
    ingress  = { host = "shop.example.com" }
  })]

  # In no plan and no state. Raise the version when a value changes.
  set_sensitive_wo         = { "database.password" = var.database_password }
  set_sensitive_wo_version = 1

  # Somebody else may scale it. (What an autoscaler changes needs no entry.)
  ignore_drift = [{
    target = { kind = "Deployment", name = "shop" }
    paths  = ["/spec/replicas"]
  }]
}

# From an OCI registry, in a namespace that the release above creates, with the CRDs left to somebody else.
resource "berth_release" "cart" {
  cluster   = "shared"
  name      = "cart"
  namespace = berth_release.shop.namespace
  chart     = { repository = "oci://registry.example.com/charts", name = "cart", version = "0.9.2" }
  crds      = "skip"
  timeouts  = { create = "20m" }
}

variable "database_password" {
  type      = string
  ephemeral = true
}
