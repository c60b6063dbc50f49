{{/* Prefix of the names of what has no namespace. */}}
{{- define "standin.global" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}

{{/* Labels of every object. Those of the chart change with its version, so that pod templates don't have them. */}}
{{- define "standin.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{ include "standin.stable" . }}
{{- end }}

{{/* Labels that stay the same from version to version. */}}
{{- define "standin.stable" -}}
app.kubernetes.io/name: standin
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "standin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
