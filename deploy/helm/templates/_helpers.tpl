{{/* The name of all objects of a release. */}}
{{- define "cloakroom.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "cloakroom.selector" -}}
app.kubernetes.io/name: cloakroom
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cloakroom.labels" -}}
{{ include "cloakroom.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The configuration: what the chart decides, and what the values replace. */}}
{{- define "cloakroom.config" -}}
{{- $secrets := "/etc/cloakroom/secrets" }}
{{- $listener := dict "address" "0.0.0.0:8080" "behindTLSProxy" true }}
{{- if not .Values.behindTLSProxy }}
{{- $tls := dict "certificateFile" "/etc/cloakroom/tls/tls.crt" "keyFile" "/etc/cloakroom/tls/tls.key" }}
{{- $listener = dict "address" "0.0.0.0:8443" "tls" $tls }}
{{- end }}
{{- $admin := dict "address" "0.0.0.0:9464" "tokenFile" (printf "%s/admin-token" $secrets) "tokenScope" "actions" }}
{{- $session := dict "secretsFile" (printf "%s/session-secrets" $secrets) }}
{{- $base := dict "listeners" (list $listener) "admin" $admin "session" $session }}
{{- toYaml (mustMergeOverwrite $base (deepCopy .Values.config)) }}
{{- end }}

{{/* What no schema can say. */}}
{{- define "cloakroom.check" -}}
{{- $values := .Values }}
{{- if not $values.config.upstreams }}{{ fail "config.upstreams is required: name your API, such as config.upstreams.api.targets: [\"http://api.default.svc:9000\"]" }}{{ end }}
{{- if not $values.config.routes }}{{ fail "config.routes is required: the paths that are served, such as [{name: all, methods: [GET], path: \"/*\", upstream: api, requiresAuthorization: true}]" }}{{ end }}
{{- if not $values.secrets.name }}{{ fail "secrets.name is required: a secret with the keys session-secrets and admin-token; kubectl create secret generic cloakroom-secrets --from-file session-secrets --from-file admin-token" }}{{ end }}
{{- if eq (not $values.tls.secretName) (not $values.behindTLSProxy) }}{{ fail "set either tls.secretName, the secret with the server certificate, or behindTLSProxy: true" }}{{ end }}
{{- if and $values.behindTLSProxy (not $values.config.trustedProxies) }}{{ fail "behindTLSProxy requires config.trustedProxies: the addresses of the pods that terminate TLS, such as [10.244.0.0/16]" }}{{ end }}
{{- $store := dig "session" "store" "memory" $values.config }}
{{- if and (ne $store "valkey") (or $values.autoscaling.enabled (gt (int $values.replicas) 1)) }}{{ fail (printf "several replicas require config.session.store: valkey; with %s a session exists in one pod only" $store) }}{{ end }}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) }}{{ fail "ingress.hosts is required: the names under which the gateway is reached" }}{{ end }}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) }}{{ fail "httpRoute.parentRefs is required: the Gateway that receives the requests" }}{{ end }}
{{- if and (or $values.ingress.enabled $values.httpRoute.enabled) (not $values.behindTLSProxy) }}{{ fail "an Ingress and an HTTPRoute forward clear text: set behindTLSProxy: true, or expose the Service with type LoadBalancer" }}{{ end }}
{{- end }}

{{- define "cloakroom.port" -}}
{{ if .Values.behindTLSProxy }}http{{ else }}https{{ end }}
{{- end }}

{{- define "cloakroom.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
