import type { AdmissionCode } from '../../shared/errors/admission-error-kinds.ts';
import type { Injection } from '../pod/injection.ts';
import { paths, reservedPrefix, volumes } from '../pod/names.ts';
import type { Container, Pod, VolumeMount } from '../pod/pod.ts';
import { isAllowed } from './allowed.ts';
import { isUnconfined } from './pod-rules.ts';
import { type Problem, problem } from './problem.ts';

interface Surroundings {
  readonly pod: Pod;
  readonly injection: Injection;
}

type ContainerRule = (container: Container, surroundings: Surroundings) => boolean;

/** Each rule returns true for a container that violates it. */
const rules: Readonly<Partial<Record<AdmissionCode, ContainerRule>>> = {
  'admission.name_reserved': ({ name }) => name.startsWith(reservedPrefix),
  'admission.sidecar_user': ({ securityContext }, { injection: { uid } }) =>
    securityContext?.runAsUser === uid || securityContext?.runAsGroup === uid,
  'admission.user_missing': ({ securityContext }, { pod }) =>
    (securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser) === undefined,
  'admission.privileged': ({ securityContext }) => securityContext?.privileged === true,
  'admission.privilege_escalation': ({ securityContext }) =>
    securityContext?.allowPrivilegeEscalation !== false,
  'admission.capabilities': ({ securityContext }) => {
    const { add = [], drop = [] } = securityContext?.capabilities ?? {};
    return !drop.includes('ALL') || !add.every((one) => isAllowed('capabilities', one));
  },
  'admission.proc_mount': ({ securityContext }) =>
    (securityContext?.procMount ?? 'Default') !== 'Default',
  'admission.unconfined': ({ securityContext }) => isUnconfined(securityContext),
  'admission.sidecar_volume': ({ volumeMounts = [] }) => volumeMounts.some(isSidecarMount),
  'admission.sidecar_secret': ({ env = [], envFrom = [] }, { injection: { redis } }) =>
    'secretName' in redis &&
    (env.some(({ valueFrom }) => valueFrom?.secretKeyRef?.name === redis.secretName) ||
      envFrom.some(({ secretRef }) => secretRef?.name === redis.secretName)),
  'admission.probe_host': ({ livenessProbe, readinessProbe, startupProbe, lifecycle }) =>
    [livenessProbe, readinessProbe, startupProbe, lifecycle?.postStart, lifecycle?.preStop].some(
      (handler) => Boolean(handler?.httpGet?.host) || Boolean(handler?.tcpSocket?.host),
    ),
  'admission.sidecar_processes': ({ targetContainerName = '' }) =>
    targetContainerName.startsWith(reservedPrefix),
};

function isSidecarMount({ name, mountPath, readOnly }: VolumeMount): boolean {
  if (name === volumes.trust) return mountPath !== paths.trust || readOnly !== true;
  return name === volumes.data || name === volumes.token;
}

/** The rules that containers of the agent violate. */
export function containerProblems(
  containers: readonly Container[],
  surroundings: Surroundings,
): Problem[] {
  return Object.entries(rules).flatMap(([code, isViolated]) => {
    const names = containers.filter((one) => isViolated(one, surroundings)).map(({ name }) => name);
    return names.length === 0 ? [] : [problem(code as AdmissionCode, names)];
  });
}
