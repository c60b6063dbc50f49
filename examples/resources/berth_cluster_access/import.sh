# The cluster's key in the provider's `clusters`, the namespace, and the name of the ServiceAccount.
tofu import berth_cluster_access.edge edge/kube-system/berth
