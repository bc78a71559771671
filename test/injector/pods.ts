import { admittedPods } from './admitted-pods.ts';
import type { PodCase } from './pod-case.ts';
import { refusedPods } from './refused-pods.ts';

/** Pods as the API server sends them to a webhook, after it has set defaults. */
export const podCases: readonly PodCase[] = [...admittedPods, ...refusedPods];
