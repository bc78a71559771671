import type { World } from './world.ts';

export interface Step {
  readonly title: string;
  run(world: World): Promise<{
    /** The tool whose newest decision in the ledger tells how the step went. */
    readonly tool: string;
    readonly told: string;
  }>;
  readonly expected: { readonly decision: string; readonly reason: string };
}

/** A step did not go as promised. */
export class StepFailed extends Error {
  override readonly name = 'StepFailed';
}

export function expectStep(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new StepFailed(otherwise);
}
