# management/cluster/name: the keys of both clusters in the provider's `clusters`, then what Argo CD calls the cluster
tofu import berth_cluster.edge mgmt/edge/edge-us-east-1
