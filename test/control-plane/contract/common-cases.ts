import { bodyBytesMaxDefault } from '../../../control-plane/platform/http/body.ts';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { roles } from '../../../shared/contract/keys.ts';
import { type Answer, holds } from '../../support/control-plane/api.ts';
import { type Case, failsWithout, yields } from './case.ts';
import { fresh } from './stage.ts';

const unknownKey = 'apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ';

/** The cases that follow from an operation's authentication, body and budget. */
export function commonCases(operation: AnyOperation): readonly Case[] {
  const { auth, body, bodyBytesMax = bodyBytesMaxDefault } = operation;
  return [
    yields(400, 'request.invalid', (ask) => ask({ query: '?nobody_knows=1' })),
    yields(429, 'rate_limited', async (ask, { tenant, tight, services }) => {
      const { key, id } = await tenant();
      for (let n = sentMax; n < (operation.budgetPerMinute ?? 0); n++) {
        await services.bus.count(id, `budget:${operation.id}`, 60_000);
      }
      return untilRefused(operation, () => ask({ key, api: tight }));
    }),
    ...(auth === 'none' ? [] : keyCases(operation)),
    ...(body === undefined
      ? []
      : [
          yields(400, 'args.schema_invalid', (ask) => ask({ body: [] })),
          yields(413, 'request.body_too_large', (ask) =>
            ask({ body: { padding: 'x'.repeat(bodyBytesMax) } }),
          ),
        ]),
  ];
}

function keyCases({ auth, permission }: AnyOperation): readonly Case[] {
  const lacking = roles.find((role) => !holds(role, permission ?? ''));
  return [
    yields(401, 'auth.missing_key', (ask) => ask({ key: 'none' })),
    yields(401, 'auth.invalid_key', (ask) => ask({ key: unknownKey })),
    yields(403, 'auth.insufficient_permission', async (ask, { key }) =>
      ask({ key: await key({ role: lacking ?? 'owner', scope: 'gateway' }) }),
    ),
    ...(auth === 'gateway'
      ? [
          yields(403, 'auth.gateway_scope_required', async (ask, { key }) =>
            ask({ key: await key({ scope: 'tenant' }) }),
          ),
        ]
      : []),
    yields(403, 'integrity.forged_row', async (ask, { key, services }) => {
      const principal = fresh('raised');
      const raised = await key({ role: 'auditor', scope: 'gateway', principal });
      await services.pool.query(`update api_key set role = 'owner' where principal = $1`, [
        principal,
      ]);
      return ask({ key: raised });
    }),
    yields(500, 'internal.unexpected', async (ask, { key, faults }) => {
      const unseen = await key({ scope: 'gateway', principal: fresh('unseen') });
      await faults.withoutTable('api_key');
      return ask({ key: unseen });
    }),
  ];
}

const atOnce = 40;
/** The maximum number of requests that are sent; the rest of a larger budget is used up on the bus. */
const sentMax = 40;

/** Sends requests until the budget is exhausted; returns the response to the next request. */
async function untilRefused(
  { auth, budgetPerMinute = 1 }: AnyOperation,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const left = Math.min(budgetPerMinute, sentMax);
  for (let sent = 0; sent < left; sent += atOnce) {
    const batch = Math.min(atOnce, left - sent);
    const answers = await Promise.all(Array.from({ length: batch }, ask));
    const early = answers.find(({ status }) => status === 429);
    // Callers without a key share one budget per address, so earlier tests have used a part of it.
    if (early !== undefined && auth === 'none') return early;
    if (early !== undefined) throw new Error(`refused before ${budgetPerMinute} were sent`);
  }
  return ask();
}

export const openCases: readonly Case[] = [
  failsWithout('signing_key', 'internal.unexpected', (ask) => ask()),
];
