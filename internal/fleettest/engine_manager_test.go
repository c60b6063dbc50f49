package fleettest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A version is played by its own program, or by the next later one, which is said, and never by an older one (K45).
func TestChooseProgram(t *testing.T) {
	for _, test := range []struct{ image, program, remark string }{
		{"registry.k8s.io/kueue/kueue:v0.17.0", "kueue", ""},
		{"registry.k8s.io:5000/kueue/kueue:v0.15.0@sha256:" + strings.Repeat("0", 64), "kueue-0.15", ""},
		{"us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:release-0.17", "kueue", ""},
		{"kueue:v0.16.4", "kueue", "played by Kueue 0.17.0"},
		{"kueue:v0.14.2", "kueue-0.15", "played by Kueue 0.15.0"},
		{"kueue:v0.17.8", "", "is ready and does nothing"},
		{"registry.example.com:5000/kueue", "kueue", "names no version"},
	} {
		program, remark := kueueKind.choose(test.image)
		if program.name != test.program || !strings.Contains(remark, test.remark) || (test.remark == "") != (remark == "") {
			t.Errorf("%s is played by %q: %q", test.image, program.name, remark)
		}
	}
}

func TestContainerPort(t *testing.T) {
	containers := []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "webhook", ContainerPort: 9443}}}}
	for _, test := range []struct {
		target intstr.IntOrString
		want   int
	}{
		{intstr.FromString("webhook"), 9443},
		{intstr.FromInt32(8082), 8082},
		{intstr.FromString("other"), 0},
	} {
		if got := containerPort(containers, test.target); got != test.want {
			t.Errorf("%v is %d, want %d", test.target, got, test.want)
		}
	}
}
