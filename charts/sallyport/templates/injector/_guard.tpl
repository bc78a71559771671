{{/* Whether a security context (an optional of CEL) switches restrictions of the kernel off. */}}
{{- define "sallyport.unconfined" -}}
{{- printf "%[1]s.?seccompProfile.?type.orValue(\"\") == \"Unconfined\" || %[1]s.?appArmorProfile.?type.orValue(\"\") == \"Unconfined\" || !(%[1]s.?seLinuxOptions.?type.orValue(\"\") in %[2]s)" .context (toJson .types) -}}
{{- end -}}

{{/*
What is wrong with a new pod, by code, in the order of injector/guard/pod-rules.ts: `bad` is true for a refused pod,
or `names` lists what is at fault.
*/}}
{{- define "sallyport.podRules" -}}
{{- $plan := .plan -}}
{{- $allowed := $plan.allowed -}}
- code: admission.not_injected
  bad: '!variables.hasSidecar'
- code: admission.annotation_invalid
  names: variables.unusable
- code: admission.host_namespace
  bad: variables.spec.?hostNetwork.orValue(false) || variables.spec.?hostPID.orValue(false) || variables.spec.?hostIPC.orValue(false)
- code: admission.shared_processes
  bad: variables.spec.?shareProcessNamespace.orValue(false)
- code: admission.windows
  bad: variables.spec.?os.?name.orValue("") == "windows" || variables.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false) || (variables.spec.containers + variables.init).exists(c, c.?securityContext.?windowsOptions.?hostProcess.orValue(false))
- code: admission.static_pod
  bad: {{ printf "%s in variables.annotations" (toJson $plan.names.mirror) | toJson }}
- code: admission.name_resolution
  bad: variables.spec.?dnsPolicy.orValue("") == "None" || size(variables.spec.?hostAliases.orValue([])) > 0 || size(variables.spec.?dnsConfig.?nameservers.orValue([])) > 0 || size(variables.spec.?dnsConfig.?searches.orValue([])) > 0
- code: admission.volume_type
  names: {{ printf "variables.volumes.filter(v, v.exists(k, k != \"name\" && !(k in %s))).map(v, v.name)" (toJson $allowed.volumeSources) | toJson }}
- code: admission.sidecar_token
  names: {{ printf "variables.volumes.filter(v, v.?projected.?sources.orValue([]).exists(s, s.?serviceAccountToken.?audience.orValue(\"\") == %s)).map(v, v.name)" (toJson .settings.audience) | toJson }}
{{- with .settings.redis.secretName }}
- code: admission.sidecar_secret
  names: {{ printf "variables.volumes.filter(v, v.?secret.?secretName.orValue(\"\") == %[1]s || v.?projected.?sources.orValue([]).exists(s, s.?secret.?name.orValue(\"\") == %[1]s)).map(v, v.name)" (toJson .) | toJson }}
{{- end }}
- code: admission.sidecar_user
  bad: {{ printf "variables.context.?runAsUser.orValue(-1) == %[1]d || variables.context.?runAsGroup.orValue(-1) == %[1]d || variables.context.?fsGroup.orValue(-1) == %[1]d || %[1]d in variables.context.?supplementalGroups.orValue([])" (int .settings.uid) | toJson }}
- code: admission.unconfined
  bad: {{ printf "%s || variables.annotations.exists(k, k.startsWith(\"container.apparmor.security.beta.kubernetes.io/\") && variables.annotations[k] == \"unconfined\")" (include "sallyport.unconfined" (dict "context" "variables.context" "types" $allowed.seLinuxTypes)) | toJson }}
- code: admission.sysctl
  names: {{ printf "variables.context.?sysctls.orValue([]).filter(s, !(s.name in %s)).map(s, s.name)" (toJson $allowed.sysctls) | toJson }}
{{- end -}}

{{/* What is wrong with a container `c` of the agent, in the order of injector/guard/container-rules.ts. */}}
{{- define "sallyport.containerRules" -}}
{{- $plan := .plan -}}
{{- $volumes := $plan.names.volumes -}}
- code: admission.name_reserved
  bad: {{ printf "c.name.startsWith(%s)" (toJson $plan.names.reservedPrefix) | toJson }}
- code: admission.sidecar_user
  bad: {{ printf "c.?securityContext.?runAsUser.orValue(-1) == %[1]d || c.?securityContext.?runAsGroup.orValue(-1) == %[1]d" (int .settings.uid) | toJson }}
- code: admission.user_missing
  bad: '!c.?securityContext.?runAsUser.hasValue() && !variables.context.?runAsUser.hasValue()'
- code: admission.privileged
  bad: c.?securityContext.?privileged.orValue(false)
- code: admission.privilege_escalation
  bad: c.?securityContext.?allowPrivilegeEscalation.orValue(true)
- code: admission.capabilities
  bad: {{ printf "!(\"ALL\" in c.?securityContext.?capabilities.?drop.orValue([])) || c.?securityContext.?capabilities.?add.orValue([]).exists(a, !(a in %s))" (toJson $plan.allowed.capabilities) | toJson }}
- code: admission.proc_mount
  bad: c.?securityContext.?procMount.orValue("Default") != "Default"
- code: admission.unconfined
  bad: {{ include "sallyport.unconfined" (dict "context" "c.?securityContext" "types" $plan.allowed.seLinuxTypes) | toJson }}
- code: admission.sidecar_volume
  bad: {{ printf "c.?volumeMounts.orValue([]).exists(m, m.name in %s || (m.name == %s && (m.mountPath != %s || !m.?readOnly.orValue(false))))" (list $volumes.data $volumes.token | toJson) (toJson $volumes.trust) (toJson $plan.names.trustPath) | toJson }}
{{- with .settings.redis.secretName }}
- code: admission.sidecar_secret
  bad: {{ printf "c.?env.orValue([]).exists(e, e.?valueFrom.?secretKeyRef.?name.orValue(\"\") == %[1]s) || c.?envFrom.orValue([]).exists(e, e.?secretRef.?name.orValue(\"\") == %[1]s)" (toJson .) | toJson }}
{{- end }}
- code: admission.probe_host
  bad: {{ `[c.?livenessProbe, c.?readinessProbe, c.?startupProbe, c.?lifecycle.?postStart, c.?lifecycle.?preStop].exists(h, h.?httpGet.?host.orValue("") != "" || h.?tcpSocket.?host.orValue("") != "")` | toJson }}
- code: admission.sidecar_processes
  bad: {{ printf "c.?targetContainerName.orValue(\"\").startsWith(%s)" (toJson $plan.names.reservedPrefix) | toJson }}
{{- end -}}

{{/* Whether the pod starts with the containers that are injected, as in injector/guard/sidecar-present.ts. */}}
{{- define "sallyport.hasSidecar" -}}
{{- $comparison := .plan.comparison -}}
{{- $known := concat $comparison.compared $comparison.tolerated (list "securityContext" "volumeMounts") -}}
variables.init.size() >= 3 && [0, 1, 2].all(i,
  {{ toJson $comparison.compared }}.all(k, variables.init[i][?k] == variables.expected[i][?k]) &&
  variables.init[i].all(k, k in {{ toJson $known }}) &&
  variables.init[i].?securityContext.orValue({}).all(k, k == "procMount" ? variables.init[i].securityContext.procMount == "Default" : variables.init[i].securityContext[?k] == variables.expected[i].securityContext[?k]) &&
  variables.expected[i].securityContext.all(k, variables.init[i].?securityContext[?k].hasValue()) &&
  variables.init[i].?volumeMounts.orValue([]).filter(m, m.mountPath != {{ toJson $comparison.serviceAccountPath }}) == variables.expected[i].?volumeMounts.orValue([])
) && variables.expectedVolumes.all(e, variables.spec.?volumes.orValue([]).exists(v, v == e))
{{- end -}}
