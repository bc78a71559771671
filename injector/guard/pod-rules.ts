import type { AdmissionCode } from '../../shared/errors/admission-error-kinds.ts';
import type { Injection } from '../pod/injection.ts';
import { isInjectedVolume, mirrorAnnotation } from '../pod/names.ts';
import { unusableAnnotations } from '../pod/options.ts';
import type { Container, Pod, PodSecurityContext, Volume } from '../pod/pod.ts';
import { isAllowed } from './allowed.ts';
import { type Problem, problem } from './problem.ts';

type PodRule = (pod: Pod, injection: Injection) => boolean | readonly string[];

/** Each rule returns true, or the names of the offending parts, for a pod that violates it. */
const rules: Readonly<Partial<Record<AdmissionCode, PodRule>>> = {
  'admission.annotation_invalid': unusableAnnotations,
  'admission.host_namespace': ({ spec }) =>
    spec.hostNetwork === true || spec.hostPID === true || spec.hostIPC === true,
  'admission.shared_processes': ({ spec }) => spec.shareProcessNamespace === true,
  'admission.windows': ({ spec }) =>
    spec.os?.name === 'windows' ||
    [spec, ...containersOf(spec)].some(
      ({ securityContext }) => securityContext?.windowsOptions?.hostProcess === true,
    ),
  'admission.static_pod': ({ metadata }) => metadata?.annotations?.[mirrorAnnotation] !== undefined,
  'admission.name_resolution': ({ spec: { dnsPolicy, dnsConfig, hostAliases = [] } }) =>
    dnsPolicy === 'None' ||
    hostAliases.length > 0 ||
    (dnsConfig?.nameservers ?? []).length > 0 ||
    (dnsConfig?.searches ?? []).length > 0,
  'admission.volume_type': ({ spec }) => namesOf(ownVolumes(spec).filter(hasRefusedSource)),
  'admission.sidecar_token': ({ spec }, { audience }) =>
    namesOf(
      ownVolumes(spec).filter(({ projected }) =>
        projected?.sources?.some((one) => one.serviceAccountToken?.audience === audience),
      ),
    ),
  'admission.sidecar_secret': ({ spec }, { redis }) =>
    'secretName' in redis
      ? namesOf(ownVolumes(spec).filter((volume) => hasSecret(volume, redis.secretName)))
      : false,
  'admission.sidecar_user': ({ spec: { securityContext: context = {} } }, { uid }) =>
    context.runAsUser === uid ||
    context.runAsGroup === uid ||
    context.fsGroup === uid ||
    (context.supplementalGroups ?? []).includes(uid),
  'admission.unconfined': ({ metadata, spec }) =>
    isUnconfined(spec.securityContext) || hasUnconfinedAnnotation(metadata?.annotations),
  'admission.sysctl': ({ spec }) =>
    namesOf(spec.securityContext?.sysctls ?? []).filter((name) => !isAllowed('sysctls', name)),
};

function containersOf({ containers, initContainers = [] }: Pod['spec']): readonly Container[] {
  return [...containers, ...initContainers];
}

function ownVolumes({ volumes = [] }: Pod['spec']): readonly Volume[] {
  return volumes.filter((volume) => !isInjectedVolume(volume));
}

function hasRefusedSource(volume: Volume): boolean {
  return Object.keys(volume).some((key) => key !== 'name' && !isAllowed('volumeSources', key));
}

function hasSecret({ secret, projected }: Volume, name: string): boolean {
  return (
    secret?.secretName === name ||
    (projected?.sources ?? []).some((source) => source.secret?.name === name)
  );
}

function namesOf(named: readonly { readonly name: string }[]): string[] {
  return named.map(({ name }) => name);
}

/** Whether the kernel's restrictions for containers are switched off. */
export function isUnconfined(context: PodSecurityContext | undefined): boolean {
  return (
    context?.seccompProfile?.type === 'Unconfined' ||
    context?.appArmorProfile?.type === 'Unconfined' ||
    !isAllowed('seLinuxTypes', context?.seLinuxOptions?.type ?? '')
  );
}

/** Kubernetes still accepts this form of AppArmor profiles. */
function hasUnconfinedAnnotation(annotations: Readonly<Record<string, string>> = {}): boolean {
  return Object.entries(annotations).some(
    ([name, value]) =>
      name.startsWith('container.apparmor.security.beta.kubernetes.io/') && value === 'unconfined',
  );
}

export function podProblems(pod: Pod, injection: Injection): Problem[] {
  return Object.entries(rules).flatMap(([code, check]) => {
    const found = check(pod, injection);
    if (found === false) return [];
    if (found === true) return [problem(code as AdmissionCode)];
    return found.length === 0 ? [] : [problem(code as AdmissionCode, found)];
  });
}
