import { type ErrorKind, refusal } from './error-kind.ts';

/**
 * Reason codes of the admission guard: why a pod of an injected namespace is refused. The person
 * who creates the pod reads the texts; the chart writes them into its admission policies.
 */
export const admissionErrorKinds = {
  'admission.label_invalid': refusal(
    403,
    'The label sallyport.io/inject must be "true" or "false": correct or remove it.',
  ),
  'admission.exemption_refused': refusal(
    403,
    'This namespace requires the sidecar in every pod: remove the label sallyport.io/inject "false", or create the pod in another namespace.',
  ),
  'admission.annotation_invalid': refusal(
    403,
    'An annotation of Sallyport has no usable value: agent takes 1 to 64 letters, digits, ".", "_" or "-"; hold-time takes milliseconds up to 60000; cpu-request and cpu-limit take values such as 100m or 2; memory-request and memory-limit take values such as 128Mi.',
  ),
  'admission.not_injected': refusal(
    403,
    'The pod does not have the sidecar as this cluster configures it. Check that the injector runs, and that no other webhook changes the containers and volumes named sallyport-* or adds init containers before them.',
  ),
  'admission.name_reserved': refusal(
    403,
    'Container names that begin with "sallyport-" are reserved: rename the container.',
  ),
  'admission.host_namespace': refusal(
    403,
    'hostNetwork, hostPID and hostIPC let the pod bypass the sidecar: remove them.',
  ),
  'admission.shared_processes': refusal(
    403,
    'shareProcessNamespace lets the containers reach the processes of the sidecar: remove shareProcessNamespace.',
  ),
  'admission.windows': refusal(403, 'Sidecars need Linux: create the pod in another namespace.'),
  'admission.static_pod': refusal(
    403,
    'A static pod cannot be injected: move it to a namespace without injection.',
  ),
  'admission.name_resolution': refusal(
    403,
    'The sidecar resolves names with the settings of the pod: remove hostAliases, dnsConfig.nameservers, dnsConfig.searches and dnsPolicy "None".',
  ),
  'admission.volume_type': refusal(
    403,
    'A volume has a type that may let the pod bypass the sidecar: use only configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret.',
  ),
  'admission.sidecar_token': refusal(
    403,
    "A volume projects a service account token with the sidecar's audience: remove this token, or use another audience.",
  ),
  'admission.sidecar_secret': refusal(
    403,
    "The Secret with the sidecar's Redis URL is for the sidecar only: remove the reference to it.",
  ),
  'admission.sidecar_volume': refusal(
    403,
    'A container mounts a volume of the sidecar: remove the mount. Only sallyport-trust is for other containers, and Sallyport mounts it.',
  ),
  'admission.sidecar_user': refusal(
    403,
    "The sidecar's user and group id are reserved, because the redirect does not apply to them: use other ids in runAsUser, runAsGroup, fsGroup and supplementalGroups.",
  ),
  'admission.user_missing': refusal(
    403,
    "Without runAsUser the image chooses the user, which may be the sidecar's: set securityContext.runAsUser of the pod or of the container.",
  ),
  'admission.privileged': refusal(
    403,
    'A privileged container can remove the redirect: remove securityContext.privileged.',
  ),
  'admission.privilege_escalation': refusal(
    403,
    'A container may gain privileges, such as by a setuid program: set securityContext.allowPrivilegeEscalation to false.',
  ),
  'admission.capabilities': refusal(
    403,
    'A container has capabilities that may let it bypass the sidecar: set securityContext.capabilities.drop to ["ALL"], and add none but CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, NET_BIND_SERVICE and SYS_CHROOT.',
  ),
  'admission.proc_mount': refusal(403, 'procMount must be "Default": correct or remove it.'),
  'admission.unconfined': refusal(
    403,
    'seccomp and AppArmor must not be "Unconfined", and the SELinux type must be one for containers: correct or remove these profiles.',
  ),
  'admission.sysctl': refusal(
    403,
    'A sysctl is not among those that Kubernetes considers safe for any pod: remove it.',
  ),
  'admission.probe_host': refusal(
    403,
    'A probe or a lifecycle hook names a host, which makes the node connect to it: remove the host.',
  ),
  'admission.sidecar_processes': refusal(
    403,
    'An ephemeral container targets an injected container and would see its processes: choose another target.',
  ),
  'admission.injection_changed': refusal(
    403,
    'The label and the annotations of Sallyport cannot change in an existing pod: create the pod again.',
  ),
  'admission.sidecar_changed': refusal(
    403,
    'The image of an injected container cannot change in an existing pod: create the pod again.',
  ),
  'admission.sidecar_exec': refusal(
    403,
    'Commands cannot be executed in injected containers: read their logs, or choose another container.',
  ),
} as const satisfies Record<string, ErrorKind>;

export type AdmissionCode = keyof typeof admissionErrorKinds;
