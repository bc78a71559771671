import { isExempt } from '../pod/inject.ts';
import type { Injection } from '../pod/injection.ts';
import { containers, injectLabel, isInjectedContainer, reservedPrefix } from '../pod/names.ts';
import type { Container, Pod } from '../pod/pod.ts';
import { containerProblems } from './container-rules.ts';
import { podProblems } from './pod-rules.ts';
import { type Problem, problem } from './problem.ts';
import { hasSidecar } from './sidecar-present.ts';

/** A request about a pod in an injected namespace. */
export type PodRequest =
  | { readonly kind: 'create'; readonly pod: Pod }
  | { readonly kind: 'update'; readonly pod: Pod; readonly before: Pod }
  | { readonly kind: 'debug'; readonly pod: Pod }
  | { readonly kind: 'exec'; readonly container: string };

interface GuardOptions {
  readonly injection: Injection;
  /** Whether the label `sallyport.io/inject: "false"` exempts a pod in this namespace. */
  readonly mayExempt: boolean;
}

/**
 * Returns the reasons for refusing the request; empty if it is allowed. Refuses everything that
 * could bypass the sidecar.
 */
export function guard(request: PodRequest, options: GuardOptions): readonly Problem[] {
  switch (request.kind) {
    case 'create':
      return ofNewPod(request.pod, options);
    case 'update':
      return ofChange(request.before, request.pod);
    case 'debug':
      return ofEphemeralContainers(request.pod, options);
    case 'exec':
      return request.container.startsWith(reservedPrefix)
        ? [problem('admission.sidecar_exec', [request.container])]
        : [];
  }
}

function ofNewPod(pod: Pod, { injection, mayExempt }: GuardOptions): readonly Problem[] {
  const label = pod.metadata?.labels?.[injectLabel];
  if (label !== undefined && label !== 'true' && label !== 'false') {
    return [problem('admission.label_invalid')];
  }
  if (isExempt(pod)) return mayExempt ? [] : [problem('admission.exemption_refused')];
  const missing = hasSidecar(pod, injection) ? [] : [problem('admission.not_injected')];
  return [
    ...missing,
    ...podProblems(pod, injection),
    ...containerProblems(agentContainers(pod), { pod, injection }),
  ];
}

function agentContainers({ spec }: Pod): readonly Container[] {
  const own = (spec.initContainers ?? []).filter((one) => !isInjectedContainer(one));
  return [...spec.containers, ...own];
}

/** Checks an update. The API server itself allows changes only to a pod's images, labels and annotations. */
function ofChange(before: Pod, after: Pod): readonly Problem[] {
  const problems: Problem[] = [];
  if (JSON.stringify(ownMetadata(before)) !== JSON.stringify(ownMetadata(after))) {
    problems.push(problem('admission.injection_changed'));
  }
  const changed = (after.spec.initContainers ?? []).filter(
    (container, index) =>
      isInjectedContainer(container) &&
      container.image !== before.spec.initContainers?.[index]?.image,
  );
  if (changed.length > 0) {
    problems.push(
      problem(
        'admission.sidecar_changed',
        changed.map(({ name }) => name),
      ),
    );
  }
  return problems;
}

function ownMetadata({ metadata }: Pod): readonly (readonly [string, string])[] {
  return [...Object.entries(metadata?.labels ?? {}), ...Object.entries(metadata?.annotations ?? {})]
    .filter(([name]) => name.startsWith('sallyport.io/'))
    .sort(([one], [other]) => (one < other ? -1 : 1));
}

/**
 * Checks debug containers. A pod that was created before its namespace was labelled has no sidecar
 * to protect.
 */
function ofEphemeralContainers(pod: Pod, { injection }: GuardOptions): readonly Problem[] {
  const hasInjected = pod.spec.initContainers?.some(({ name }) => name === containers.sidecar);
  if (hasInjected !== true) return [];
  return containerProblems(pod.spec.ephemeralContainers ?? [], { pod, injection });
}
