import type { Pool } from 'pg';
import { toSealable } from '../../../control-plane/ledger/sealing/check-event.ts';
import {
  batchRowsMax,
  type LedgerState,
  type PreparedBatch,
  prepareBatch,
} from '../../../control-plane/ledger/sealing/prepare-batch.ts';
import type { SigningKey } from '../../../shared/crypto/signing-key.ts';
import { type EvidenceEvent, genesisHash } from '../../../shared/ledger/event.ts';
import { signHead } from '../../../shared/ledger/head.ts';
import { Frontier } from '../../../shared/ledger/merkle.ts';
import { seeded } from '../base/seeded.ts';
import { insertRows } from './insert-rows.ts';

export interface BigLedger {
  /** `big_1`, `big_2`, … */
  readonly tenants: readonly string[];
  readonly rowsPerTenant: number;
  /**
   * The time of the first event. Later events are `stepMs` apart, except for those that arrived
   * late.
   */
  readonly startMs: number;
  readonly stepMs: number;
}

interface BigLedgerOptions {
  readonly tenants: number;
  readonly rows: number;
  readonly key: SigningKey;
  /** Approximate length of a canonical text. */
  readonly textBytes?: number;
}

const startMs = Date.UTC(2026, 0, 1);
const spanMs = 180 * 86_400_000;
const agents = 40;

/**
 * Fills an empty database with valid ledgers, as sealing would have written them. They contain the
 * events of a few dozen agents: many decisions, few denials, an occasional action of a human, and
 * one event in a hundred that arrived up to a day late. Batches of the tenants alternate.
 */
export async function makeBigLedger(
  pool: Pool,
  { tenants: count, rows, key, textBytes = 700 }: BigLedgerOptions,
): Promise<BigLedger> {
  const rowsPerTenant = Math.ceil(rows / count);
  const stepMs = Math.floor(spanMs / rowsPerTenant);
  const ledgers = Array.from({ length: count }, (_, at) => ({
    tenantId: `big_${at + 1}`,
    state: emptyState(),
    random: seeded(at),
  }));
  for (let done = 0; done < rowsPerTenant; done += batchRowsMax) {
    const size = Math.min(batchRowsMax, rowsPerTenant - done);
    for (const ledger of ledgers) {
      const events = Array.from({ length: size }, (_, index) =>
        anEventOf(ledger.random, { index: done + index, stepMs, textBytes }),
      );
      const sealable = events.map((event) => toSealable(ledger.tenantId, event));
      const batch = prepareBatch(ledger.tenantId, ledger.state, sealable);
      if (batch.rows.length !== size) throw new Error('the events did not fit into one batch');
      await insertBatch(pool, batch, key);
      moveOn(ledger.state, batch);
    }
  }
  for (const { tenantId, state } of ledgers) await insertEnds(pool, tenantId, state);
  // Brings the tables into the state that they have after some time of use: with statistics, and
  // with pages marked as visible to all.
  await pool.query('VACUUM (ANALYZE) evidence_row');
  await pool.query('VACUUM (ANALYZE) evidence_batch');
  const tenants = ledgers.map(({ tenantId }) => tenantId);
  return { tenants, rowsPerTenant, startMs, stepMs };
}

type MutableState = { -readonly [Name in keyof LedgerState]: LedgerState[Name] } & {
  readonly chains: Map<string, { readonly seq: number; readonly hash: string }>;
};

function emptyState(): MutableState {
  const chains = new Map<string, { readonly seq: number; readonly hash: string }>();
  for (const chain of ['policies:default', 'keys:api', ...agentChains])
    chains.set(chain, { seq: 0, hash: genesisHash });
  return { position: 0, tree: new Frontier(), latestMs: 0, chains };
}

const agentChains = Array.from({ length: agents }, (_, agent) => `agent:${agent}`);

function moveOn(state: MutableState, batch: PreparedBatch): void {
  state.position = batch.after + batch.rows.length;
  state.tree = batch.tree;
  state.latestMs = batch.latestMs;
  for (const [chainId, head] of batch.moved) state.chains.set(chainId, head);
}

interface Making {
  readonly index: number;
  readonly stepMs: number;
  readonly textBytes: number;
}

function anEventOf(random: () => number, { index, stepMs, textBytes }: Making): EvidenceEvent {
  // Some agents and tools have more events than others.
  const agent = String(Math.floor(random() ** 2 * agents));
  const isLate = random() < 0.01;
  const occurredMs = startMs + index * stepMs - (isLate ? Math.floor(random() * 86_400_000) : 0);
  const event = {
    agent_id: agent,
    chain_id: `agent:${agent}`,
    id: `ev_${index.toString(16).padStart(12, '0')}`,
    occurred_at: new Date(occurredMs).toISOString(),
    source: 'control-plane',
    user_id: `user_${agent}`,
  };
  const kind = random();
  if (kind < 0.002) {
    const data = { by: 'dana', policy_id: `p${index % 7}` };
    return {
      ...event,
      agent_id: undefined,
      chain_id: 'policies:default',
      type: 'policy.published',
      data,
    };
  }
  const approval_id = Math.floor(index / 500) + 1;
  if (kind < 0.004) return { ...event, type: 'approval.requested', data: { approval_id } };
  if (kind < 0.006) {
    const data = { approval_id, status: 'approved' };
    return { ...event, type: 'approval.decided', decision: 'approve', data };
  }
  const decision = kind < 0.9 ? 'allow' : kind < 0.97 ? 'deny' : 'require_approval';
  const rule = Math.floor(random() ** 2 * 30);
  return {
    ...event,
    type: 'decision',
    tool: `mcp.payments.tool_${Math.floor(random() ** 2 * 60)}`,
    resource: `customer:${index % 5_000}`,
    decision,
    // One row in ten thousand has a rare reason code.
    reason_code: index % 10_000 === 77 ? 'rule.rare' : `rule.${decision}_${rule}`,
    data: { args_digest: genesisHash, filling: 'x'.repeat(Math.max(0, textBytes - 450)) },
  };
}

async function insertBatch(pool: Pool, batch: PreparedBatch, key: SigningKey): Promise<void> {
  const { tenantId, after, rows, tree, latestMs } = batch;
  const position = after + rows.length;
  const tree_root = `sha256:${tree.root().toString('hex')}`;
  const jws = signHead({ tenant: tenantId, position, tree_root }, key);
  await insertRows(pool, 'evidence_row', rows);
  await pool.query(
    `INSERT INTO evidence_batch (tenant_id, position, tree_root, kid, jws, latest_at)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [tenantId, position, tree_root, key.kid, jws, new Date(latestMs).toISOString()],
  );
}

async function insertEnds(pool: Pool, tenantId: string, state: MutableState): Promise<void> {
  const { position, tree, chains } = state;
  await pool.query(
    'INSERT INTO evidence_head (tenant_id, position, frontier, tree_root) VALUES ($1, $2, $3, $4)',
    [
      tenantId,
      position,
      tree.roots.map((root) => root.toString('hex')),
      `sha256:${tree.root().toString('hex')}`,
    ],
  );
  for (const [chainId, { seq, hash }] of chains) {
    if (seq === 0) continue;
    await pool.query(
      'INSERT INTO evidence_chain (tenant_id, chain_id, seq, event_hash) VALUES ($1, $2, $3, $4)',
      [tenantId, chainId, seq, hash],
    );
  }
}
