// Nothing is built from this module. It pins the modules that carry the real charts that tests install, and its go.sum
// says what they hold.
module github.com/berthdev/terraform-provider-berth/tools/charts

go 1.26.0

require (
	knative.dev/operator v0.42.2
	sigs.k8s.io/jobset v0.10.1
	sigs.k8s.io/kueue v0.17.0
)
