import type { Log } from '../../shared/base/log.ts';
import { guard } from '../guard/guard.ts';
import type { Problem } from '../guard/problem.ts';
import { injectPod } from '../pod/inject.ts';
import type { Injection } from '../pod/injection.ts';
import { podPatch } from './pod-patch.ts';
import type { Review } from './review.ts';

/**
 * The task of a webhook path: to inject, or to guard a namespace that allows exemptions
 * (`guard-enabled`) or refuses them (`guard-required`).
 */
export type Task = 'inject' | 'guard-enabled' | 'guard-required';

/** The paths of the webhooks in the chart. */
export const tasks: Readonly<Record<string, Task>> = {
  '/inject': 'inject',
  '/guard/enabled': 'guard-enabled',
  '/guard/required': 'guard-required',
};

interface AnswerDeps {
  readonly injection: Injection;
  readonly log: Log;
  readonly onRefusal: (code: string) => void;
}

/** The response to a review, as JSON. */
export function answer(review: Review, task: Task, deps: AnswerDeps): string {
  const response = task === 'inject' ? inject(review, deps) : judge(review, task, deps);
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: { uid: review.uid, ...response },
  });
}

function inject({ request }: Review, { injection }: AnswerDeps): object {
  if (request.kind !== 'create') return { allowed: true };
  const patch = podPatch(request.pod, injectPod(request.pod, injection));
  if (patch.length === 0) return { allowed: true };
  return {
    allowed: true,
    patchType: 'JSONPatch',
    patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
  };
}

function judge(review: Review, task: Task, { injection, log, onRefusal }: AnswerDeps): object {
  const problems = guard(review.request, { injection, mayExempt: task === 'guard-enabled' });
  if (problems.length === 0) return { allowed: true };
  const { namespace, name } = review;
  const codes = problems.map(({ code }) => code);
  for (const code of new Set(codes)) onRefusal(code);
  log.info({ namespace, pod: name, codes }, 'the guard refused a pod');
  return {
    allowed: false,
    status: { code: 403, reason: 'Forbidden', message: messageOf(problems) },
  };
}

function messageOf(problems: readonly Problem[]): string {
  return problems.map(({ message }) => message).join('\n');
}
