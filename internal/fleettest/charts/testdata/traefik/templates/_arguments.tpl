{{- /* The arguments of one entry point's clients: whom to believe, and for how long to wait. */ -}}
{{- define "entrypoint" -}}
{{- $flag := printf "--entryPoints.%s" .name -}}
{{- if ((.port.http).tls).enabled }}
- {{ $flag }}.http.tls=true
{{- end }}
{{- range $kind := list "forwardedHeaders" "proxyProtocol" }}
{{- with index $.port $kind }}
{{- with .trustedIPs }}
- {{ $flag }}.{{ $kind }}.trustedIPs={{ join "," . }}
{{- end }}
{{- if .insecure }}
- {{ $flag }}.{{ $kind }}.insecure
{{- end }}
{{- end }}
{{- end }}
{{- range $limit := list "readTimeout" "writeTimeout" "idleTimeout" }}
{{- $value := index ((($.port.transport).respondingTimeouts) | default dict) $limit | toString }}
{{- if not (has $value (list "" "<nil>")) }}
- {{ $flag }}.transport.respondingTimeouts.{{ $limit }}={{ $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "provider" -}}
- --providers.{{ .name }}
{{- if hasKey .values "allowEmptyServices" }}
- --providers.{{ .name }}.allowEmptyServices={{ .values.allowEmptyServices }}
{{- end }}
{{- with .values.labelSelector }}
- --providers.{{ $.name }}.labelSelector={{ . }}
{{- end }}
{{- with .values.ingressClass }}
- --providers.{{ $.name }}.ingressClass={{ . }}
{{- end }}
{{- with .values.namespaces }}
- --providers.{{ $.name }}.namespaces={{ join "," . }}
{{- end }}
{{- end }}

{{- define "arguments" -}}
{{- range $name, $port := .Values.ports }}
{{- if $port }}
- --entryPoints.{{ $name }}.address=:{{ $port.port }}/{{ $port.protocol | default "TCP" | lower }}
{{- end }}
{{- end }}
- --api.dashboard=true
- --ping=true
- --metrics.prometheus=true
- --metrics.prometheus.entrypoint=metrics
{{- with .Values.providers.kubernetesCRD }}
{{- if .enabled }}
{{ include "provider" (dict "name" "kubernetescrd" "values" .) }}
{{- end }}
{{- end }}
{{- with .Values.providers.kubernetesIngress }}
{{- if .enabled }}
{{ include "provider" (dict "name" "kubernetesingress" "values" .) }}
{{- if and .publishedService.enabled (or $.Values.service.enabled .publishedService.pathOverride) }}
- --providers.kubernetesingress.ingressendpoint.publishedservice={{ .publishedService.pathOverride | default (printf "%s/%s" (include "namespace" $) (include "fullname" $)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.experimental.knative }}
- --experimental.knative
{{- end }}
{{- with .Values.providers.knative }}
{{- if .enabled }}
{{ include "provider" (dict "name" "knative" "values" .) }}
{{- end }}
{{- end }}
{{- range $name, $port := .Values.ports }}
{{- if $port }}
{{- include "entrypoint" (dict "name" $name "port" $port) }}
{{- end }}
{{- end }}
- --log.level={{ .Values.logs.general.level | upper }}
{{- range .Values.additionalArguments }}
- {{ . | quote }}
{{- end }}
{{- end }}
