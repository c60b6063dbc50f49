package fleettest_test

import (
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// The real controller runs a JobSet, whose webhooks are called, in a namespace of the test's own choice.
func TestJobSet(t *testing.T) {
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{
		Nodes:             []fleettest.NodeSpec{{Name: "n1"}},
		Engines:           []fleettest.Engine{fleettest.EngineJobSet},
		AdmissionWebhooks: true,
	})
	logged(t, c.JobSet())
	step := steps(t)
	installChart(t, c, charts.JobSet(t, "0.10.1")[0], "jobset", "jobs", nil)
	c.Kubectl(t, "rollout", "status", "deployment/jobset-controller", "-n", "jobs", "--timeout=3m")
	step("JobSet runs")

	c.KubectlInput(t, jobSet, "apply", "--server-side", "-f", "-")
	if mode := c.Kubectl(t, "get", "jobset", "example", "-o", "jsonpath={.spec.replicatedJobs[0].template.spec.completionMode}"); mode != "Indexed" {
		t.Errorf("the webhook has made the completion mode %q", mode)
	}
	c.Kubectl(t, "wait", "--for=condition=Completed", "jobset/example", "--timeout=60s")
	step("a JobSet is complete")

	c.JobSet().Kill(t)
	c.Kubectl(t, "delete", "jobset", "example", "--timeout=60s")
	c.KubectlInput(t, jobSet, "apply", "--server-side", "-f", "-")
	c.Kubectl(t, "wait", "--for=condition=Completed", "jobset/example", "--timeout=60s")
	step("JobSet was killed and another one is complete")
}

const jobSet = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: example
  namespace: default
spec:
  replicatedJobs:
  - name: a
    replicas: 2
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: example
              image: registry.example.com/example:1
`
