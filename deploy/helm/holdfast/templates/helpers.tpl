{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "holdfast.podsAndJobs" -}}
matchLabels:
  app.kubernetes.io/instance: {{ .Release.Name }}
matchExpressions:
  - { key: app.kubernetes.io/name, operator: In, values: [holdfast, holdfast-job] }
{{- end }}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "holdfast.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default .Release.Name }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- /* What every Deployment is made from: those of the values, or one for all roles. */ -}}
{{- define "holdfast.deployments" -}}
{{- if .Values.deployments }}
{{- range .Values.deployments }}
- {{ toYaml (merge (dict "suffix" (printf "-%s" .name)) . (dict "replicas" $.Values.replicas "resources" $.Values.resources "autoscaling" $.Values.autoscaling)) | nindent 2 | trim }}
{{- end }}
{{- else }}
- {{ toYaml (dict "suffix" "" "replicas" .Values.replicas "resources" .Values.resources "autoscaling" .Values.autoscaling) | nindent 2 | trim }}
{{- end }}
{{- end }}

{{- define "holdfast.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- end }}

{{- define "holdfast.redisEnv" -}}
{{- $secret := .Values.secret }}
{{- if $secret.redisUrl }}
{{ include "holdfast.secretEnv" (dict "name" "REDIS_URL" "secret" $secret.name "key" $secret.redisUrl) }}
{{- else if not (or .Values.env.REDIS_SENTINELS .Values.env.REDIS_CLUSTER_NODES) }}
- name: REDIS_URL
  value: {{ required "set redis.url or secret.redisUrl: the chart brings no Redis" .Values.redis.url | quote }}
{{- end }}
{{- if $secret.redisPassword }}
{{ include "holdfast.secretEnv" (dict "name" "REDIS_PASSWORD" "secret" $secret.name "key" $secret.redisPassword) }}
{{- end }}
{{- end }}

{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "holdfast.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
