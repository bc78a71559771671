{{/* The chart's name. */}}
{{- define "sallyport.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of the names of all resources: at most 40 characters, so that suffixes fit into 63. */}}
{{- define "sallyport.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a component. Call with (dict "root" $ "component" "control-plane"). */}}
{{- define "sallyport.selectorLabels" -}}
app.kubernetes.io/name: {{ include "sallyport.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of every resource. Call with (dict "root" $ "component" "control-plane"). */}}
{{- define "sallyport.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "sallyport.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: sallyport
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The reference of Sallyport's image. */}}
{{- define "sallyport.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The field imagePullSecrets of a pod, or nothing. */}}
{{- define "sallyport.imagePullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Name of the control plane's ServiceAccount. */}}
{{- define "sallyport.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sallyport.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Security context of a pod that the restricted Pod Security Standard admits. Call with a uid. */}}
{{- define "sallyport.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Security context of a container that the restricted Pod Security Standard admits. */}}
{{- define "sallyport.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Origin of the control plane as pods of the cluster reach it. */}}
{{- define "sallyport.controlPlaneUrl" -}}
{{- default (printf "http://%s.%s.svc:%v" (include "sallyport.fullname" .) .Release.Namespace .Values.service.port) .Values.sidecar.controlPlaneUrl -}}
{{- end -}}

{{/* A value as the text of an environment variable. Large numbers are whole numbers, not 1e+06. */}}
{{- define "sallyport.text" -}}
{{- if kindIs "float64" . -}}{{- int64 . -}}{{- else -}}{{- . -}}{{- end -}}
{{- end -}}

{{/* Peer of network policies: every pod of this release. */}}
{{- define "sallyport.releasePeer" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "sallyport.name" . }}
      app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
