import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../pod/pod.ts';

interface PatchOperation {
  readonly op: 'add';
  readonly path: string;
  readonly value: unknown;
}

const changed = ['volumes', 'initContainers', 'containers'] as const;

/** The JSON Patch (RFC 6902) from one pod to its injected form. `add` also replaces a member. */
export function podPatch(before: Pod, after: Pod): readonly PatchOperation[] {
  return changed
    .filter((field) => !isDeepStrictEqual(before.spec[field], after.spec[field]))
    .map((field) => ({ op: 'add', path: `/spec/${field}`, value: after.spec[field] }));
}
