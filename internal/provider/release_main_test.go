package provider_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// rel is the address of the release of tests with a single one.
const rel = "berth_release.this"

// paintChart writes a chart whose release has a ConfigMap "<release>-paint" with a color, a Secret "<release>-paint" with
// a password, and with `more` a second ConfigMap.
func paintChart(t testing.TB, version string) string {
	t.Helper()
	return charts.Folder(t, "paint", version, map[string]string{
		"values.yaml":        "color: white\npassword: none\nmore: false\n",
		"values.schema.json": `{"type":"object","properties":{"color":{"type":"string"},"more":{"type":"boolean"}}}`,
		"templates/config.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-paint
data:
  color: {{ .Values.color }}
  chart: "{{ .Chart.Version }}"
`,
		"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-paint
stringData:
  password: {{ .Values.password | quote }}
`,
		"templates/more.yaml": `{{- if .Values.more }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-more
data: {}
{{- end }}
`,
	})
}

// releaseBlock is a berth_release of the name in the namespace.
func releaseBlock(label, namespace, name string, body ...string) string {
	return fmt.Sprintf("resource \"berth_release\" %q {\nname = %q\nnamespace = %q\n%s\n}\n", label, name, namespace, strings.Join(body, "\n"))
}

// byFolder is the `chart` of a local folder.
func byFolder(folder string) string { return fmt.Sprintf("chart = { path = %q }", folder) }

// configMap reads a ConfigMap past the proxy; nil when there is none.
func (b *bench) configMap(namespace, name string) *corev1.ConfigMap {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().ConfigMaps(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// color is what the ConfigMap of a paintChart's release has; "none" where there is none.
func (b *bench) color(namespace, release string) string {
	b.t.Helper()
	if found := b.configMap(namespace, release+"-paint"); found != nil {
		return found.Data["color"]
	}
	return "none"
}

// secret reads a Secret past the proxy.
func (b *bench) secret(namespace, name string) *corev1.Secret {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().Secrets(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// namespaceIsGone fails the test while a namespace is there and not on its way out.
func (b *bench) namespaceIsGone(name string) {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().Namespaces().Get(b.t.Context(), name, metav1.GetOptions{})
	if err == nil && found.DeletionTimestamp == nil || err != nil && !apierrors.IsNotFound(err) {
		b.t.Errorf("namespace %q is still there (%v)", name, err)
	}
}

// edit changes a file of a chart.
func edit(t testing.TB, folder, file, from, to string) {
	t.Helper()
	charts.Edit(t, folder, file, from, to)
}
