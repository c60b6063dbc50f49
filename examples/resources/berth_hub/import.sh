# The key of the hub's cluster and the tenant's namespace.
tofu import berth_hub.main hub/forecasting
