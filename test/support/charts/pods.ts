import type { Manifest } from './helm.ts';

/** A pod, or the pod template of a workload. */
export interface PodOf {
  readonly owner: string;
  readonly labels: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes check it
  readonly spec: any;
}

/** Returns every pod that these manifests create. */
export function podsOf(manifests: readonly Manifest[]): PodOf[] {
  return manifests.flatMap(({ kind, metadata, spec }) => {
    const owner = `${kind} ${metadata.name}`;
    if (kind === 'Pod') return [{ owner, labels: metadata.labels ?? {}, spec }];
    const template = spec?.template;
    if (template?.spec?.containers === undefined) return [];
    return [{ owner, labels: template.metadata?.labels ?? {}, spec: template.spec }];
  });
}

const permittedVolumes = [
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
];

/**
 * Returns the violations of the restricted Pod Security Standard, and of stricter rules of this
 * chart: a read-only root, requested memory, and a token of the API server for the injector only.
 * https://kubernetes.io/docs/concepts/security/pod-security-standards/
 */
export function podProblems({ owner, labels, spec }: PodOf): string[] {
  const problems: string[] = [];
  const check = (holds: boolean, problem: string) => {
    if (!holds) problems.push(`${owner}: ${problem}`);
  };
  for (const field of ['hostNetwork', 'hostPID', 'hostIPC', 'hostUsers']) {
    check(spec[field] === undefined, `${field} is set`);
  }
  const callsApiServer = labels['app.kubernetes.io/component'] === 'injector';
  const isTokenless = spec.automountServiceAccountToken === false;
  check(isTokenless || callsApiServer, 'mounts a token of the API server');
  check(spec.enableServiceLinks === false, 'gets variables of other services');
  check(spec.securityContext?.runAsNonRoot === true, 'may run as root');
  check(spec.securityContext?.runAsUser > 0, 'has no uid');
  check(spec.securityContext?.seccompProfile?.type === 'RuntimeDefault', 'has no seccomp profile');
  for (const volume of spec.volumes ?? []) {
    const kinds = Object.keys(volume).filter((key) => key !== 'name');
    check(
      kinds.every((kind) => permittedVolumes.includes(kind)),
      `volume ${volume.name}: ${kinds}`,
    );
  }
  for (const container of [...(spec.initContainers ?? []), ...spec.containers]) {
    const { name, securityContext: context, resources, ports = [] } = container;
    check(context?.allowPrivilegeEscalation === false, `${name} may gain privileges`);
    check(context?.readOnlyRootFilesystem === true, `${name} can write its root`);
    check(context?.privileged === undefined, `${name} is privileged`);
    check(`${context?.capabilities?.drop}` === 'ALL', `${name} keeps capabilities`);
    check(context?.capabilities?.add === undefined, `${name} adds capabilities`);
    check(context?.runAsUser !== 0, `${name} runs as root`);
    check(resources?.requests?.memory !== undefined, `${name} requests no memory`);
    check(
      ports.every((port: object) => !('hostPort' in port)),
      `${name} has a port of the node`,
    );
  }
  return problems;
}
