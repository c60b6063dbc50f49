# The cluster's key in the provider's `clusters`, and the name of the instance.
tofu import berth_instance.this shared/my-instance
