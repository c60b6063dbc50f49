# The cluster's key in the provider's `clusters`, and the namespace and the name of the KnativeServing.
tofu import berth_knative_serving.eu eu-1/knative-serving/knative-serving
