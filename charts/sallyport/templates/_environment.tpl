{{/* Volume with the secrets as files, for programs that open the database. */}}
{{- define "sallyport.secretsVolume" -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- if not .Values.evaluation.enabled }}
      - secret:
          name: {{ .Values.database.existingSecret | quote }}
          items:
            - { key: {{ .Values.database.key | quote }}, path: database-url }
      - secret:
          name: {{ .Values.redis.existingSecret | quote }}
          items:
            - { key: {{ .Values.redis.key | quote }}, path: redis-url }
      {{- end }}
      {{- with .Values.masterKey }}
      {{- if .existingSecret }}
      - secret:
          name: {{ .existingSecret | quote }}
          items:
            {{- if not (and .kms.key .previousKey) }}
            - { key: {{ .key | quote }}, path: master-key }
            {{- end }}
            {{- if .previousKey }}
            - { key: {{ .previousKey | quote }}, path: master-key-previous }
            {{- end }}
      {{- end }}
      {{- if hasPrefix "vault:" .kms.key }}
      - secret:
          name: {{ .kms.existingSecret | quote }}
          items:
            - { key: token, path: kms-token }
      {{- end }}
      {{- end }}
{{- end -}}

{{- define "sallyport.secretsMount" -}}
- name: secrets
  mountPath: /run/secrets/sallyport
  readOnly: true
{{- end -}}

{{/* Variables that name the stores and the master key. */}}
{{- define "sallyport.storeEnvironment" -}}
- { name: NODE_ENV, value: production }
{{- if .Values.evaluation.enabled }}
- name: POSTGRES_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .Values.evaluation.existingSecret | quote }}
      key: postgres-password
- name: DATABASE_URL
  value: postgresql://sallyport:$(POSTGRES_PASSWORD)@{{ include "sallyport.fullname" . }}-postgres:5432/sallyport
- name: REDIS_URL
  value: {{ include "sallyport.evaluationRedisUrl" . }}
{{- else }}
- { name: DATABASE_URL_FILE, value: /run/secrets/sallyport/database-url }
- { name: REDIS_URL_FILE, value: /run/secrets/sallyport/redis-url }
{{- end }}
{{- with .Values.masterKey }}
{{- if and .existingSecret (not (and .kms.key .previousKey)) }}
- { name: SALLYPORT_MASTER_KEY_FILE, value: /run/secrets/sallyport/master-key }
{{- end }}
{{- if .kms.key }}
- { name: SALLYPORT_KMS_KEY, value: {{ .kms.key | quote }} }
{{- end }}
{{- if .previousKey }}
- { name: SALLYPORT_MASTER_KEY_PREVIOUS_FILE, value: /run/secrets/sallyport/master-key-previous }
{{- end }}
{{- if hasPrefix "vault:" .kms.key }}
- { name: SALLYPORT_KMS_TOKEN_FILE, value: /run/secrets/sallyport/kms-token }
{{- end }}
{{- if hasPrefix "aws:" .kms.key }}
{{ include "sallyport.awsEnvironment" .kms }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sallyport.awsEnvironment" -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: access-key-id } }
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: secret-access-key } }
{{- if .hasSessionToken }}
- name: AWS_SESSION_TOKEN
  valueFrom: { secretKeyRef: { name: {{ .existingSecret | quote }}, key: session-token } }
{{- end }}
{{- with .endpoint }}
- { name: AWS_ENDPOINT_URL_KMS, value: {{ . | quote }} }
{{- end }}
{{- end -}}

{{/* The issuers of workload tokens as JSON, or nothing. */}}
{{- define "sallyport.issuers" -}}
{{- $issuers := .Values.workloadIdentity.issuers -}}
{{- with .Values.workloadIdentity.cluster -}}
{{- if .issuer -}}
{{- $files := dict "ca_file" "/run/secrets/cluster/ca.crt" "token_file" "/run/secrets/cluster/token" -}}
{{- $cluster := merge (dict "issuer" .issuer "jwks_url" "https://kubernetes.default.svc/openid/v1/jwks") $files -}}
{{- if .tokenReview -}}
{{- $cluster = set $cluster "token_review" (merge (dict "url" "https://kubernetes.default.svc") $files) -}}
{{- end -}}
{{- $issuers = prepend $issuers $cluster -}}
{{- end -}}
{{- end -}}
{{- if $issuers -}}{{- toJson $issuers -}}{{- end -}}
{{- end -}}

{{/* URL of the evaluation mode's Redis, as pods of the whole cluster reach it. */}}
{{- define "sallyport.evaluationRedisUrl" -}}
{{- printf "redis://%s-redis.%s.svc:6379" (include "sallyport.fullname" .) .Release.Namespace -}}
{{- end -}}
