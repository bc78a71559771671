{{/* Fails for unknown names, missing values and values that contradict each other. */}}
{{- define "sallyport.validate" -}}
{{- $schema := .Files.Get "values.strict.schema.json" | fromJson -}}
{{- include "sallyport.refuseUnknownNames" (dict "values" .Values "schema" $schema "path" "") -}}
{{- include "sallyport.validateImage" . -}}
{{- include "sallyport.validateStores" . -}}
{{- include "sallyport.validateMasterKey" . -}}
{{- include "sallyport.validateControlPlane" . -}}
{{- include "sallyport.validatePublication" . -}}
{{- if .Values.injector.enabled -}}{{- include "sallyport.validateInjection" . -}}{{- end -}}
{{- end -}}

{{- define "sallyport.validateImage" -}}
{{- if not .Values.image.repository -}}
{{- fail "chart.image_missing: image.repository is empty. Build the image with `npm run image`, push it to a registry of yours, and set image.repository to it." -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.validateStores" -}}
{{- with .Values -}}
{{- if .evaluation.enabled -}}
{{- if or .database.existingSecret .redis.existingSecret -}}
{{- fail "chart.evaluation_external_stores: evaluation.enabled runs PostgreSQL and Redis in the release, but database.existingSecret or redis.existingSecret names others. Remove one of the two." -}}
{{- end -}}
{{- if not .evaluation.existingSecret -}}
{{- fail "chart.evaluation_secret_missing: evaluation.existingSecret is empty. Create it: kubectl create secret generic sallyport-evaluation --from-literal=postgres-password=$(openssl rand -hex 24)" -}}
{{- end -}}
{{- if or (gt (int .controlPlane.replicas) 1) .controlPlane.autoscaling.enabled -}}
{{- fail "chart.evaluation_replicas: evaluation.enabled has one PostgreSQL and one Redis, so more than one control plane is not more available. Set controlPlane.replicas=1 without autoscaling, or use external stores." -}}
{{- end -}}
{{- else -}}
{{- if not .database.existingSecret -}}
{{- fail "chart.database_missing: database.existingSecret is empty. Name a Secret with the URL of PostgreSQL, or try the chart with evaluation.enabled=true." -}}
{{- end -}}
{{- if not .redis.existingSecret -}}
{{- fail "chart.redis_missing: redis.existingSecret is empty. Name a Secret with the URL of Redis, or try the chart with evaluation.enabled=true." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.validateMasterKey" -}}
{{- with .Values.masterKey -}}
{{- if and (not .existingSecret) (not .kms.key) -}}
{{- fail "chart.master_key_missing: neither masterKey.existingSecret nor masterKey.kms.key is set. Create a key once and keep a copy outside the cluster: kubectl create secret generic sallyport-master-key --from-literal=master-key=$(openssl rand -base64 32)" -}}
{{- end -}}
{{- if and .previousKey (not .existingSecret) -}}
{{- fail "chart.previous_key_without_secret: masterKey.previousKey is a key of masterKey.existingSecret, which is empty. Name the Secret." -}}
{{- end -}}
{{- if and .previousKey (eq .previousKey .key) (not .kms.key) -}}
{{- fail "chart.previous_key_is_current: masterKey.previousKey and masterKey.key name the same key of the Secret. Store the new master key under another key." -}}
{{- end -}}
{{- if and .kms.key (not .kms.existingSecret) -}}
{{- fail "chart.kms_access_missing: masterKey.kms.existingSecret is empty. Name a Secret with access-key-id and secret-access-key (AWS) or token (Vault)." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.validateControlPlane" -}}
{{- with .Values.controlPlane -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "chart.autoscaling_range: controlPlane.autoscaling.minReplicas is larger than maxReplicas." -}}
{{- end -}}
{{- if and $.Values.workloadIdentity.cluster.tokenReview (not $.Values.workloadIdentity.cluster.issuer) -}}
{{- fail "chart.token_review_without_issuer: workloadIdentity.cluster.tokenReview reviews tokens of workloadIdentity.cluster.issuer, which is empty. Set the issuer." -}}
{{- end -}}
{{- range .extraEnv -}}
{{- $name := toString .name -}}
{{- if or (hasPrefix "SALLYPORT_" $name) (hasPrefix "DATABASE_URL" $name) (hasPrefix "REDIS_URL" $name) -}}
{{- fail (printf "chart.setting_in_extra_env: controlPlane.extraEnv sets %s, which the chart sets itself. Use controlPlane.settings or the value of its own." $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.validatePublication" -}}
{{- with .Values -}}
{{- if and .ingress.enabled (not .ingress.hosts) -}}
{{- fail "chart.ingress_hosts_missing: ingress.enabled needs at least one name in ingress.hosts." -}}
{{- end -}}
{{- if and .ingress.enabled (not .ingress.tls) -}}
{{- fail "chart.ingress_tls_missing: ingress.enabled needs ingress.tls, because API keys must not travel in plain text." -}}
{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- fail "chart.route_parents_missing: httpRoute.enabled needs a gateway in httpRoute.parentRefs." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sallyport.validateInjection" -}}
{{- $sidecar := .Values.sidecar -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if and (eq .Values.injector.mode "policy") (semverCompare "<1.36.0-0" $version) -}}
{{- fail (printf "chart.policy_mode_unsupported: injector.mode=policy needs Kubernetes 1.36 or later, and this is %s. Use injector.mode=webhook." $version) -}}
{{- end -}}
{{- if eq (int $sidecar.uid) 0 -}}
{{- fail "chart.sidecar_uid_missing: sidecar.uid is 0 or missing. The redirect excludes the sidecar by its uid; with uid 0 every container that runs as root would bypass it. Use a uid that no container has, such as 1337." -}}
{{- end -}}
{{- if has (int $sidecar.uid) (list 65532 65534) -}}
{{- fail (printf "chart.sidecar_uid_taken: sidecar.uid %d is the uid of Sallyport's other containers, which the redirect must not exclude. Use another one, such as 1337." (int $sidecar.uid)) -}}
{{- end -}}
{{- $ports := list (int $sidecar.transparentPort) (int $sidecar.dnsPort) 8181 8182 -}}
{{- if ne (len (uniq $ports)) 4 -}}
{{- fail "chart.sidecar_ports_equal: sidecar.transparentPort, sidecar.dnsPort, 8181 (proxy) and 8182 (health) must be four different ports." -}}
{{- end -}}
{{- if not (or .Values.workloadIdentity.cluster.issuer .Values.workloadIdentity.issuers) -}}
{{- fail "chart.workload_issuer_missing: injected sidecars enrol with the token of their service account, and no issuer is trusted. Set workloadIdentity.cluster.issuer; kubectl get --raw /.well-known/openid-configuration prints it. Or set injector.enabled=false." -}}
{{- end -}}
{{- if and $sidecar.redis.url $sidecar.redis.existingSecret -}}
{{- fail "chart.sidecar_redis_twice: sidecar.redis.url and sidecar.redis.existingSecret are both set. Remove one of the two." -}}
{{- end -}}
{{- if not (or .Values.evaluation.enabled $sidecar.redis.url $sidecar.redis.existingSecret) -}}
{{- fail "chart.sidecar_redis_missing: sidecars need Redis to become ready. Set sidecar.redis.url, or sidecar.redis.existingSecret if the URL contains a password; or set injector.enabled=false." -}}
{{- end -}}
{{- end -}}
