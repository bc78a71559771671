import { signedPolicy } from '../policies/load-published.ts';
import { type Rounds, startRounds } from '../rounds.ts';
import type { Services } from '../services.ts';
import { type KnownLedgers, type Said, saidInForce, wasEnded } from './said-in-force.ts';

type Deps = Pick<Services, 'db' | 'pool' | 'guard' | 'log'>;

/** How long a row that was taken out of force by SQL can go unseen. */
const everyMs = 10_000;

/**
 * Looks again and again for what no decision meets: a kill switch or a policy that somebody took
 * out of force in the database. Until it is put right nothing is decided or published for its tenant.
 */
export async function startIntegritySweep(services: Deps): Promise<Rounds> {
  const known: KnownLedgers = new Map();
  const round = () =>
    sweepRows(services, known).catch((err: unknown) => {
      services.log.warn({ err }, 'rows that give authority could not be looked through');
    });
  await round();
  return startRounds(round, everyMs);
}

export async function sweepRows(
  { db, pool, guard }: Omit<Deps, 'log'>,
  known: KnownLedgers = new Map(),
): Promise<void> {
  const suspects = new Map<string, string[]>();
  const suspect = (tenantId: string, row: string) => {
    suspects.set(tenantId, [...(suspects.get(tenantId) ?? []), row]);
  };
  // The ledger before the rows: what it says is in force was there by then.
  const said = await saidInForce(pool, known);
  const switches = await db.killSwitch.findMany();
  for (const row of switches) {
    if (!guard.holds('kill_switch', row)) suspect(row.tenantId, `kill_switch ${row.id}`);
  }
  // Drafts, too: one that was published is no draft again, whatever its row says.
  const policies = await db.policy.findMany({ select: signedPolicy });
  for (const row of policies) {
    if (!guard.holds('policy', row)) suspect(row.tenantId, `policy ${row.id}`);
  }
  const bindings = await db.binding.findMany({ select: { tenantId: true, name: true } });
  const present = new Set([
    ...switches.map(({ tenantId, id }) => nameOf({ tenantId, table: 'kill_switch', key: id })),
    ...policies
      .filter(({ lifecycle }) => lifecycle !== 'draft')
      .map(({ tenantId, id }) => nameOf({ tenantId, table: 'policy', key: String(id) })),
    ...bindings.map(({ tenantId, name }) => nameOf({ tenantId, table: 'binding', key: name })),
  ]);
  for (const one of said) {
    if (present.has(nameOf(one)) || (await wasEnded(pool, one))) continue;
    const { tenantId, table, key } = one;
    guard.forged({ tenantId, table, key, found: 'missing' });
    suspect(tenantId, `${table} ${key}`);
  }
  guard.suspect(suspects);
}

function nameOf({ tenantId, table, key }: Pick<Said, 'tenantId' | 'table' | 'key'>): string {
  return JSON.stringify([tenantId, table, key]);
}
