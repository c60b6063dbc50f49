resource "berth_cluster_access" "edge" {
  cluster = "edge"
}

ephemeral "berth_kubeconfig" "edge" {
  access   = berth_cluster_access.edge.id
  uid      = berth_cluster_access.edge.uid
  lifetime = "30m"
}

# For a program that is run by the apply. Another provider takes host, cluster_ca_certificate and token the same way.
resource "terraform_data" "smoke_test" {
  provisioner "local-exec" {
    command     = "printf '%s' \"$CONTENT\" >edge.kubeconfig && kubectl --kubeconfig edge.kubeconfig get nodes; rm -f edge.kubeconfig"
    environment = { CONTENT = ephemeral.berth_kubeconfig.edge.kubeconfig }
  }
}
