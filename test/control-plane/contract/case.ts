import type { Answer } from '../../support/control-plane/api.ts';
import type { Given, Stage } from './stage.ts';

export type Ask = (given?: Given) => Promise<Answer>;

/** One way to cause one response of an operation. */
export interface Case {
  readonly status: number;
  /** The `reason_code` of the response; empty for a success. */
  readonly reason: string;
  readonly answer: (ask: Ask, stage: Stage) => Promise<Answer>;
}

/** The cases of each operation, by `METHOD PATH`. */
export type Cases = Readonly<Record<string, readonly Case[]>>;

export const yields = (status: number, reason: string, answer: Case['answer']): Case => ({
  status,
  reason,
  answer,
});

export const succeeds = (status: number, answer: Case['answer']): Case =>
  yields(status, '', answer);

/** Returns one case for each body; each expects a refusal with 400 `args.schema_invalid`. */
export const refusesBodies = (...bodies: readonly unknown[]): readonly Case[] =>
  bodies.map((body) => yields(400, 'args.schema_invalid', (ask) => ask({ body })));

/** Like {@link yields}, but the table is unavailable during the request. */
export const failsWithout = (table: string, reason: string, answer: Case['answer']): Case =>
  yields(500, reason, async (ask, stage) => {
    await stage.faults.withoutTable(table);
    return answer(ask, stage);
  });

/** Like {@link yields}, but a published policy differs from its hash during the request. */
export const failsOnPolicy = (answer: Case['answer']): Case =>
  yields(500, 'policy.load_failed', async (ask, stage) => {
    await stage.changePublishedPolicy();
    return answer(ask, stage);
  });

export const failsToWrite = (table: string, reason: string, answer: Case['answer']): Case =>
  yields(500, reason, async (ask, stage) => {
    await stage.faults.unwritable(table);
    return answer(ask, stage);
  });
