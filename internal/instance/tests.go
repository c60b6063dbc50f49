package instance

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// Tests are the checks that need a pod on the cluster (J17, J19); they run in the apply and are off unless asked for.
type Tests struct {
	// ImagePull pulls every sandbox image on a node where sandboxes run, without a pull secret.
	ImagePull bool
	// Endpoints are URLs that pods have to reach, asked for by a pod of Image, which has to have curl.
	Endpoints []string
	Image     string
}

func (t Tests) empty() bool { return !t.ImagePull && len(t.Endpoints) == 0 }

// testTime is how long one test pod may take, a slow image pull included.
const testTime = 2 * time.Minute

// runTests runs a short-lived pod for each test. An image that cannot be pulled fails the apply; an endpoint that
// cannot be reached is a warning, because reachability moves by itself (J57).
func (s Spec) runTests(ctx context.Context, c *cluster.Cluster, owner kube.Owner, tests Tests, outcome *Outcome) error {
	if tests.ImagePull {
		refs := s.ImageRefs()
		for _, name := range sortedKeys(refs) {
			// The command does not exist on purpose: that the container cannot start it proves that the image is there.
			pod := s.testPod("berth-pull-"+name, refs[name], []any{"/berth-pull-test"})
			verdict, err := s.runPod(ctx, c, owner, pod, pulled)
			if err != nil {
				return err
			}
			if verdict != "" {
				return &cluster.Problem{
					Attribute: fmt.Sprintf("sandbox_images[%q]", name), Summary: fmt.Sprintf("Image %q cannot be pulled", refs[name]),
					Detail: fmt.Sprintf("A pod without a pull secret could not pull %s on %s: %s. berth sets no pull secret: give the nodes credentials for the registry, or allow anonymous pulls.", refs[name], c.Context(), verdict),
				}
			}
		}
	}
	for i, address := range tests.Endpoints {
		pod := s.testPod(fmt.Sprintf("berth-endpoint-%d", i), tests.Image, []any{"curl", "-sS", "-o", "/dev/null", "--max-time", "20", address})
		verdict, err := s.runPod(ctx, c, owner, pod, finished)
		if err != nil {
			return err
		}
		if verdict != "" {
			outcome.Warnings = append(outcome.Warnings, preflight.Check{
				Name: "endpoints/" + shownURL(address), Status: preflight.Warn,
				Message: fmt.Sprintf("A pod in namespace %q on %s could not reach %s: %s.", s.Namespace, c.Context(), shownURL(address), verdict),
				Remedy:  "An address that works from your computer can fail from the cluster: check its DNS, its network policies and its way out.",
			})
		}
	}
	return nil
}

// shownURL is a URL without what may be secret in it; its form was validated.
func shownURL(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "an endpoint"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

func (s Spec) testPod(name, image string, command []any) kube.Object {
	name = strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
	desired := cluster.Pods.New(s.Namespace, name)
	spec := map[string]any{
		"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(0), "automountServiceAccountToken": false, "priorityClassName": s.Classes().Sandbox.Name,
		"containers": []any{map[string]any{
			"name": "test", "image": image, "imagePullPolicy": "Always", "command": command,
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}, "limits": map[string]any{"cpu": "100m", "memory": "64Mi"},
			},
		}},
	}
	if len(s.NodeSelector) > 0 {
		selector := map[string]any{}
		for key, value := range s.NodeSelector {
			selector[key] = value
		}
		spec["nodeSelector"] = selector
	}
	tolerations := []any{}
	for _, toleration := range s.sandboxSettings().Tolerations {
		tolerations = append(tolerations, tolerationMap(toleration))
	}
	spec["tolerations"] = tolerations
	desired.Object["spec"] = spec
	return kube.Object{Kind: cluster.Pods, Desired: desired}
}

// runPod creates a test pod, waits for its verdict ("" is good) and deletes it whatever came of it.
func (s Spec) runPod(ctx context.Context, c *cluster.Cluster, owner kube.Owner, pod kube.Object, judge func(*unstructured.Unstructured) (done bool, verdict string)) (verdict string, err error) {
	name := pod.Desired.GetName()
	defer func() {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if _, failed := kube.Remove(again, c, cluster.Pods, s.Namespace, name, kube.Terms{Owner: owner}, false); failed != nil && err == nil {
			err = failed
		}
	}()
	// One that an interrupted apply left says nothing of now.
	if _, err := kube.Remove(ctx, c, cluster.Pods, s.Namespace, name, kube.Terms{Owner: owner}, false); err != nil {
		return "", err
	}
	if _, err := kube.Converge(ctx, c, pod, kube.Terms{Owner: owner}); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	err = kube.Wait(ctx, c, cluster.Pods, s.Namespace, name, "wait for its verdict", func(live *unstructured.Unstructured) (bool, string) {
		var done bool
		done, verdict = judge(live)
		return done, "the pod is " + phaseOf(live)
	})
	return verdict, err
}

func phaseOf(pod *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	if phase == "" {
		return "Pending"
	}
	return phase
}

// pulled judges an image by its pod: anything after the pull, a failed start included, proves that it was pulled.
func pulled(pod *unstructured.Unstructured) (done bool, verdict string) {
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	for _, one := range statuses {
		status, _ := one.(map[string]any)
		reason, _, _ := unstructured.NestedString(status, "state", "waiting", "reason")
		message, _, _ := unstructured.NestedString(status, "state", "waiting", "message")
		switch reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
			return true, strings.TrimSuffix(reason+": "+message, ".")
		case "CreateContainerError", "RunContainerError", "CrashLoopBackOff":
			return true, ""
		}
	}
	return phaseOf(pod) != "Pending", ""
}

// finished judges a pod by how it ended.
func finished(pod *unstructured.Unstructured) (done bool, verdict string) {
	switch phaseOf(pod) {
	case "Succeeded":
		return true, ""
	case "Failed":
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, one := range statuses {
			status, _ := one.(map[string]any)
			if code, found, _ := unstructured.NestedInt64(status, "state", "terminated", "exitCode"); found {
				return true, fmt.Sprintf("curl ended with exit code %d", code)
			}
		}
		return true, "the pod failed"
	}
	if done, verdict := pulled(pod); done && verdict != "" {
		return true, verdict
	}
	return false, ""
}
