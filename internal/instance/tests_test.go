package instance

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func podWith(phase string, state map[string]any) *unstructured.Unstructured {
	status := map[string]any{}
	if phase != "" {
		status["phase"] = phase
	}
	if state != nil {
		status["containerStatuses"] = []any{map[string]any{"name": "test", "state": state}}
	}
	return &unstructured.Unstructured{Object: map[string]any{"status": status}}
}

func waitsFor(reason, message string) map[string]any {
	return map[string]any{"waiting": map[string]any{"reason": reason, "message": message}}
}

// Whatever comes after the pull proves that there was one; only what the kubelet says of the pull itself is a no (J17).
func TestPulled(t *testing.T) {
	for name, one := range map[string]struct {
		pod     *unstructured.Unstructured
		done    bool
		verdict string
	}{
		"new":             {podWith("", nil), false, ""},
		"not scheduled":   {podWith("Pending", nil), false, ""},
		"being created":   {podWith("Pending", waitsFor("ContainerCreating", "")), false, ""},
		"refused":         {podWith("Pending", waitsFor("ErrImagePull", "401 Unauthorized.")), true, "ErrImagePull: 401 Unauthorized"},
		"refused again":   {podWith("Pending", waitsFor("ImagePullBackOff", "Back-off")), true, "ImagePullBackOff: Back-off"},
		"no image":        {podWith("Pending", waitsFor("InvalidImageName", "")), true, "InvalidImageName: "},
		"cannot be begun": {podWith("Pending", waitsFor("CreateContainerError", "no such file")), true, ""},
		"crashed":         {podWith("Running", waitsFor("CrashLoopBackOff", "")), true, ""},
		"runs":            {podWith("Running", nil), true, ""},
		"failed to start": {podWith("Failed", nil), true, ""},
	} {
		if done, verdict := pulled(one.pod); done != one.done || verdict != one.verdict {
			t.Errorf("%s: %v %q, want %v %q", name, done, verdict, one.done, one.verdict)
		}
	}
}

// An endpoint is judged by how curl ended, and by nothing before that but an image that cannot be pulled (J19).
func TestFinished(t *testing.T) {
	exit := map[string]any{"terminated": map[string]any{"exitCode": int64(28)}}
	for name, one := range map[string]struct {
		pod     *unstructured.Unstructured
		done    bool
		verdict string
	}{
		"pending":   {podWith("Pending", nil), false, ""},
		"runs":      {podWith("Running", nil), false, ""},
		"reached":   {podWith("Succeeded", nil), true, ""},
		"timed out": {podWith("Failed", exit), true, "curl ended with exit code 28"},
		"evicted":   {podWith("Failed", nil), true, "the pod failed"},
		"no curl":   {podWith("Pending", waitsFor("ErrImagePull", "not found")), true, "ErrImagePull: not found"},
	} {
		if done, verdict := finished(one.pod); done != one.done || verdict != one.verdict {
			t.Errorf("%s: %v %q, want %v %q", name, done, verdict, one.done, one.verdict)
		}
	}
}

// What may be secret in a URL is not shown (X9).
func TestShownURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://model.example.com/v1":                     "https://model.example.com/v1",
		"https://user:p@ss@model.example.com/v1?key=abc":   "https://model.example.com/v1",
		"https://model.example.com/@team/v1":               "https://model.example.com/@team/v1",
		"http://model.example.com:8080?token=a&b=https://": "http://model.example.com:8080",
	} {
		if got := shownURL(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}
