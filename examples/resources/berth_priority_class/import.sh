# The cluster's key in the provider's `clusters`, and the name of the PriorityClass.
tofu import berth_priority_class.batch shared/batch-low
