package charts

import (
	"fmt"
	"testing"
)

// Random writes a chart whose Secret "<release>-random" has another random password at each rendering.
func Random(t testing.TB) string {
	t.Helper()
	return Folder(t, "random", "1.0.0", map[string]string{"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-random
data:
  password: {{ randAlphaNum 20 | b64enc }}
`})
}

// Lookup writes a chart whose Secret "<release>-lookup" has a random password, which it keeps where the Secret exists.
func Lookup(t testing.TB) string {
	t.Helper()
	return Folder(t, "lookup", "1.0.0", map[string]string{"templates/secret.yaml": `{{- $name := printf "%s-lookup" .Release.Name }}
{{- $password := randAlphaNum 20 | b64enc }}
{{- with lookup "v1" "Secret" .Release.Namespace $name }}
{{- $password = .data.password }}
{{- end }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
data:
  password: {{ $password }}
`})
}

// TemplateCRD writes a chart with a CRD (valves.template.example.com) among its templates and an object of it,
// "<release>-valve": Helm itself can't install the two at once. There is one such release on a cluster at most.
func TemplateCRD(t testing.TB) string {
	t.Helper()
	return Folder(t, "templatecrd", "1.0.0", map[string]string{
		"values.yaml": "flow: 1\n",
		"templates/crd.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: valves.template.example.com
spec:
  group: template.example.com
  scope: Namespaced
  names:
    kind: Valve
    listKind: ValveList
    plural: valves
    singular: valve
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                flow:
                  type: integer
                unit:
                  type: string
                  default: l/s
`,
		"templates/valve.yaml": `apiVersion: template.example.com/v1
kind: Valve
metadata:
  name: {{ .Release.Name }}-valve
spec:
  flow: {{ .Values.flow }}
`,
	})
}

// Many writes a chart of n objects without hooks or CRDs, for measuring. Of ten objects three are ConfigMaps, and one
// each is a Secret, Service, ServiceAccount, Role, RoleBinding, PodDisruptionBudget and Deployment (of one pod). The
// value "text" is in each ConfigMap, and "tag" is that of the Deployments' images.
func Many(t testing.TB, n int) string {
	t.Helper()
	return Folder(t, "many", "1.0.0", map[string]string{
		"values.yaml":            fmt.Sprintf("objects: %d\ntext: hello\ntag: \"1\"\n", n),
		"templates/objects.yaml": manyObjects,
	})
}

const manyObjects = `{{- range $i := until (int .Values.objects) }}
{{- $name := printf "%s-%d" $.Release.Name $i }}
{{- $ten := printf "%s-%d" $.Release.Name (div $i 10) }}
---
{{- $kind := index (list "ConfigMap" "Secret" "Service" "ServiceAccount" "Deployment" "Role" "RoleBinding" "ConfigMap" "PodDisruptionBudget" "ConfigMap") (mod $i 10) }}
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  labels:
    app.kubernetes.io/instance: {{ $.Release.Name }}
{{- if eq $kind "ConfigMap" }}
apiVersion: v1
data:
  text: {{ $.Values.text | quote }}
{{- else if eq $kind "Secret" }}
apiVersion: v1
data:
  password: {{ b64enc $name }}
{{- else if eq $kind "Service" }}
apiVersion: v1
spec:
  selector:
    app: {{ $ten }}
  ports:
    - port: 80
{{- else if eq $kind "ServiceAccount" }}
apiVersion: v1
{{- else if eq $kind "Deployment" }}
apiVersion: apps/v1
spec:
  selector:
    matchLabels:
      app: {{ $ten }}
  template:
    metadata:
      labels:
        app: {{ $ten }}
    spec:
      containers:
        - name: app
          image: registry.example.com/many/app:{{ $.Values.tag }}
          resources:
            requests:
              cpu: 10m
{{- else if eq $kind "Role" }}
apiVersion: rbac.authorization.k8s.io/v1
rules:
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [get]
{{- else if eq $kind "RoleBinding" }}
apiVersion: rbac.authorization.k8s.io/v1
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ printf "%s-%d" $.Release.Name (sub $i 1) }}
subjects:
  - kind: ServiceAccount
    name: {{ printf "%s-%d" $.Release.Name (sub $i 3) }}
    namespace: {{ $.Release.Namespace }}
{{- else }}
apiVersion: policy/v1
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: {{ $ten }}
{{- end }}
{{- end }}
`
