# What a cluster of Kubernetes 1.32 can run, the newest first: ["1.20", "1.19", "1.18", "1.17", "1.16"].
output "knative_versions" {
  value = provider::berth::knative_versions("1.32")
}
