import type { Injection } from './injection.ts';
import { annotations } from './names.ts';
import type { Pod, Texts } from './pod.ts';

/** The settings of a sidecar that the annotations of its pod can change. */
export interface SidecarOptions {
  readonly holdTime: string;
  readonly resources: Resources;
}

interface Resources {
  readonly requests: Texts;
  readonly limits: Texts;
}

/**
 * The forms of annotations. They exclude `$`, because Kubernetes expands `$(NAME)` in the value of
 * a variable. They are also valid in RE2, because the chart writes them into its policies.
 */
export const annotationForms: Readonly<Record<string, RegExp>> = {
  [annotations.agent]: /^[A-Za-z0-9._-]{1,64}$/,
  [annotations.holdTime]: /^(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|60000)$/,
  [annotations.cpuRequest]: /^[1-9][0-9]{0,5}m?$/,
  [annotations.cpuLimit]: /^[1-9][0-9]{0,5}m?$/,
  [annotations.memoryRequest]: /^[1-9][0-9]{0,5}(Ki|Mi|Gi)$/,
  [annotations.memoryLimit]: /^[1-9][0-9]{0,5}(Ki|Mi|Gi)$/,
};

/** The annotations whose values cannot be used. */
export function unusableAnnotations(pod: Pod): string[] {
  const given = pod.metadata?.annotations ?? {};
  return Object.entries(annotationForms)
    .filter(([name, form]) => given[name] !== undefined && !form.test(given[name]))
    .map(([name]) => name);
}

/** An annotation that cannot be used counts as missing; the guard refuses its pod. */
export function sidecarOptions(pod: Pod, injection: Injection): SidecarOptions {
  const value = (name: string) => {
    const text = pod.metadata?.annotations?.[name];
    return text !== undefined && annotationForms[name]?.test(text) ? text : undefined;
  };
  const { requests, limits } = injection.resources;
  return {
    holdTime: value(annotations.holdTime) ?? String(injection.holdTimeMs),
    resources: {
      requests: amounts({
        cpu: value(annotations.cpuRequest) ?? requests.cpu,
        memory: value(annotations.memoryRequest) ?? requests.memory,
      }),
      limits: amounts({
        cpu: value(annotations.cpuLimit) ?? limits.cpu,
        memory: value(annotations.memoryLimit) ?? limits.memory,
      }),
    },
  };
}

function amounts(given: Readonly<Record<string, string | undefined>>): Texts {
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, amount]) =>
      amount === undefined ? [] : [[name, amount]],
    ),
  );
}
