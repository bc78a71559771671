{{/* Settings of the injected sidecar, as the webhook's server reads them. */}}
{{- define "sallyport.injectionSettings" -}}
{{- $sidecar := .Values.sidecar -}}
{{- $redis := dict "url" $sidecar.redis.url -}}
{{- if $sidecar.redis.existingSecret -}}
{{- $redis = dict "secretName" $sidecar.redis.existingSecret "secretKey" $sidecar.redis.key -}}
{{- else if not $sidecar.redis.url -}}
{{- $redis = dict "url" (printf "redis://%s-redis.%s.svc:6379" (include "sallyport.fullname" .) .Release.Namespace) -}}
{{- end -}}
{{- $resources := dict -}}
{{- range $kind := list "requests" "limits" -}}
{{- $amounts := dict -}}
{{- range $name, $amount := get ($sidecar.resources | default dict) $kind | default dict -}}
{{- if not (has $name (list "cpu" "memory")) -}}
{{- fail (printf "chart.sidecar_resource_unknown: sidecar.resources.%s.%s is not cpu or memory. Remove it." $kind $name) -}}
{{- end -}}
{{- $_ := set $amounts $name (toString $amount) -}}
{{- end -}}
{{- $_ := set $resources $kind $amounts -}}
{{- end -}}
{{- $settings := dict -}}
{{- $determined := (.Files.Get "files/injection.json" | fromJson).determinedSettings -}}
{{- range $name, $value := $sidecar.settings -}}
{{- if has $name $determined -}}
{{- fail (printf "chart.sidecar_setting_determined: sidecar.settings.%s is set by the injection. Use the other values of `sidecar`, or the annotations of the pod." $name) -}}
{{- end -}}
{{- $_ := set $settings $name (include "sallyport.text" $value) -}}
{{- end -}}
{{- dict
  "image" (include "sallyport.image" .)
  "imagePullPolicy" .Values.image.pullPolicy
  "uid" (int $sidecar.uid)
  "transparentPort" (int $sidecar.transparentPort)
  "dnsPort" (int $sidecar.dnsPort)
  "audience" "sallyport"
  "controlPlaneUrl" (include "sallyport.controlPlaneUrl" .)
  "redis" $redis
  "holdTimeMs" (int $sidecar.holdTime)
  "resources" $resources
  "settings" $settings
  | toJson -}}
{{- end -}}

{{/* files/injection.json with the settings filled in, as JSON. */}}
{{- define "sallyport.injectionPlan" -}}
{{- $settings := include "sallyport.injectionSettings" . | fromJson -}}
{{- $text := .Files.Get "files/injection.json" -}}
{{- $marks := ($text | fromJson).marks -}}
{{- range $name, $mark := $marks -}}
{{- $text = replace ($mark | int64 | toString) (get $settings $name | int64 | toString) $text -}}
{{- end -}}
{{- range $mark, $value := dict
  "@image" $settings.image
  "@pullPolicy" $settings.imagePullPolicy
  "@audience" $settings.audience
  "@controlPlaneUrl" $settings.controlPlaneUrl -}}
{{- $text = replace (toJson $mark) (toJson $value) $text -}}
{{- end -}}
{{- if $settings.redis.url -}}
{{- $text = replace (toJson "@redis") (toJson $settings.redis.url) $text -}}
{{- else -}}
{{- $reference := dict "name" $settings.redis.secretName "key" $settings.redis.secretKey -}}
{{- $source := dict "secretKeyRef" $reference | toJson -}}
{{- $text = replace "\"value\": \"@redis\"" (printf "\"valueFrom\": %s" $source) $text -}}
{{- end -}}
{{- $plan := $text | fromJson -}}
{{- $sidecar := index $plan.containers 1 -}}
{{- range $name, $value := $settings.settings -}}
{{- $_ := set $sidecar "env" (append $sidecar.env (dict "name" $name "value" $value)) -}}
{{- end -}}
{{- toJson $plan -}}
{{- end -}}

{{/*
A value as a CEL expression. Members of maps and lists are `dyn`, because CEL has no literals of mixed types. A
text that begins with `cel:`, and the member `cel` of a map, is an expression already.
*/}}
{{- define "sallyport.cel" -}}
{{- if kindIs "map" . -}}
{{- if hasKey . "cel" -}}
{{- get . "cel" -}}
{{- else -}}
{{- $members := list -}}
{{- range $name, $value := . -}}
{{- $members = append $members (printf "%s: dyn(%s)" (toJson $name) (include "sallyport.cel" $value)) -}}
{{- end -}}
{{- printf "{%s}" (join ", " $members) -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- $members := list -}}
{{- range . -}}
{{- $members = append $members (printf "dyn(%s)" (include "sallyport.cel" .)) -}}
{{- end -}}
{{- printf "[%s]" (join ", " $members) -}}
{{- else if and (kindIs "string" .) (hasPrefix "cel:" .) -}}
{{- trimPrefix "cel:" . -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* Names of the objects of the injector. They include the namespace where the cluster has one namespace of names. */}}
{{- define "sallyport.injectorName" -}}
{{- printf "%s-injector" (include "sallyport.fullname" .) -}}
{{- end -}}

{{- define "sallyport.injectorClusterName" -}}
{{- printf "%s-%s" (include "sallyport.injectorName" .) .Release.Namespace -}}
{{- end -}}

{{/* Namespaces without injection: those of Kubernetes, and the release's, because the injector starts there. */}}
{{- define "sallyport.excludedNamespaces" -}}
key: kubernetes.io/metadata.name
operator: NotIn
values: [kube-system, kube-public, kube-node-lease, {{ .Release.Namespace }}]
{{- end -}}

{{/* Pods of a labelled namespace. Call with (dict "root" $ "values" (list "enabled" "required")). */}}
{{- define "sallyport.labelledNamespaces" -}}
namespaceSelector:
  matchExpressions:
    - {{- include "sallyport.excludedNamespaces" .root | nindent 6 }}
    - { key: sallyport.io/inject, operator: In, values: [{{ join ", " .values }}] }
{{- end -}}

{{/* Labelled pods of other namespaces. */}}
{{- define "sallyport.labelledPods" -}}
namespaceSelector:
  matchExpressions:
    - {{- include "sallyport.excludedNamespaces" . | nindent 6 }}
    - { key: sallyport.io/inject, operator: NotIn, values: [enabled, required] }
objectSelector:
  matchLabels: { sallyport.io/inject: "true" }
{{- end -}}

{{/* The variables that read the annotations of a pod. */}}
{{- define "sallyport.annotationVariables" -}}
{{- $settings := include "sallyport.injectionSettings" . | fromJson -}}
{{- $plan := include "sallyport.injectionPlan" . | fromJson -}}
- name: annotations
  expression: object.metadata.?annotations.orValue({})
{{- range $plan.annotations }}
- name: {{ .key }}
  expression: {{ printf "%s in variables.annotations && variables.annotations[%s].matches(%s) ? optional.of(variables.annotations[%s]) : optional.none()" (toJson .name) (toJson .name) (toJson .form) (toJson .name) | toJson }}
{{- end }}
- name: hold
  expression: {{ printf "variables.holdTime.orValue(%s)" ($settings.holdTimeMs | int64 | toString | toJson) | toJson }}
{{- range $kind, $prefix := dict "requests" "Request" "limits" "Limit" }}
{{- $members := list -}}
{{- range $name := list "cpu" "memory" -}}
{{- $default := "optional.none()" -}}
{{- with get (get $settings.resources $kind) $name -}}
{{- $default = printf "optional.of(%s)" (toJson .) -}}
{{- end -}}
{{- $members = append $members (printf "?%s: variables.%s%s.or(%s)" (toJson $name) $name $prefix $default) -}}
{{- end }}
- name: {{ $kind }}
  expression: {{ printf "{%s}" (join ", " $members) | toJson }}
{{- end }}
{{- end -}}

{{/* What all webhooks have in common. Call with (dict "root" $ "path" "/inject"). */}}
{{- define "sallyport.webhook" -}}
admissionReviewVersions: [v1]
clientConfig:
  service:
    name: {{ include "sallyport.injectorName" .root }}
    namespace: {{ .root.Release.Namespace }}
    path: {{ .path }}
    port: 443
failurePolicy: Fail
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: 5
{{- end -}}
