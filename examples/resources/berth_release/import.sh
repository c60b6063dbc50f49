# The cluster's key in the provider's `clusters`, the namespace, and the name of the release.
tofu import berth_release.shop shared/shop/shop
