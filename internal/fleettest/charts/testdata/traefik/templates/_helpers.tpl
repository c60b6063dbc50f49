{{- define "name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name where it has the chart's in it, both otherwise. */ -}}
{{- define "fullname" -}}
{{- $both := printf "%s-%s" .Release.Name (include "name" .) -}}
{{- if contains (include "name" .) .Release.Name -}}{{- $both = .Release.Name -}}{{- end -}}
{{ .Values.fullnameOverride | default $both | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "service" -}}
{{ .Values.service.nameOverride | default (include "fullname" .) }}
{{- end }}

{{- define "account" -}}
{{ .Values.serviceAccount.name | default (include "fullname" .) }}
{{- end }}

{{- define "role" -}}
{{ printf "%s-%s" (include "fullname" .) (include "namespace" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "selector" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/instance: {{ .Values.instanceLabelOverride | default (printf "%s-%s" .Release.Name (include "namespace" .)) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "image" -}}
{{- $name := printf "%s/%s" .Values.image.registry .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
