import { admittedPods } from './admitted-pods.ts';
import type { PodCase } from './pod-case.ts';
import { refusedPods } from './refused-pods.ts';

/** Pods as the API server passes them on, after its defaults. */
export const podCases: readonly PodCase[] = [...admittedPods, ...refusedPods];
