import { timingSafeEqual } from 'node:crypto';
import type { Pool } from 'pg';
import type { Clock } from '../../../shared/base/clock.ts';
import type { Log } from '../../../shared/base/log.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import {
  addedColumns,
  type SignedRow,
  type SignedTable,
  signedColumns,
} from '../store/signed-columns.ts';
import type { ForgeryMeter } from '../telemetry/forgery-metrics.ts';
import type { Vault } from '../vault/vault.ts';
import type { ArmedKillSwitches } from './armed-kill-switches.ts';
import type { KnownLedgers } from './known-ledgers.ts';
import { type Forgery, reportForgery } from './report-forgery.ts';

/** Distinguishes rows that the control plane wrote from forged ones. */
export interface RowGuard {
  /** Computes the keyed hash of a row from the values that the row will have in the database. */
  sign<Table extends SignedTable>(table: Table, row: Omit<SignedRow<Table>, 'mac'>): string;
  /**
   * Returns false for a row that fails its integrity check. Such a row must not be used. Seals and
   * counts the finding.
   */
  holds<Table extends SignedTable>(table: Table, row: SignedRow<Table>): boolean;
  /** Throws `integrity.forged_row` for a row that fails its integrity check. */
  assert<Table extends SignedTable>(table: Table, row: SignedRow<Table>): void;
  /** State that this process has read from the ledgers, to compare rows with. */
  readonly known: KnownLedgers;
  /**
   * Replaces the findings of all tenants: forged or missing rows that no decision reads, and the
   * armed kill switches.
   */
  suspect(
    rows: ReadonlyMap<string, readonly string[]>,
    armed: ReadonlyMap<string, ArmedKillSwitches>,
  ): void;
  /** Returns the kill switches that were armed when the ledger ended at the known position. */
  armedIn(tenantId: string): ArmedKillSwitches;
  /** Returns the suspect rows of a tenant, as `<table> <key>`. */
  suspectsOf(tenantId: string): readonly string[];
  /** Throws `integrity.forged_row` if the tenant has suspect rows. */
  assertTrusted(tenantId: string): void;
  /**
   * Seals and counts a finding, and returns the error to throw. Used for rows with a proof of their
   * own, such as bindings.
   */
  forged(forgery: Forgery): GatewayError;
}

interface GuardDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly log: Log;
  readonly vault: Pick<Vault, 'mac' | 'seal'>;
  readonly meter?: ForgeryMeter | undefined;
}

/**
 * Size of the cache of valid rows, keyed by all signed values. Most decisions read the same few
 * rows.
 */
const knownMax = 20_000;
const noneArmed: ArmedKillSwitches = { ids: [], position: 0 };
const macForm = /^[0-9a-f]{64}$/;

export function createRowGuard(deps: GuardDeps): RowGuard {
  const { vault, meter } = deps;
  const known = new Set<string>();
  const reported = new Set<string>();
  let suspects: ReadonlyMap<string, readonly string[]> = new Map();
  let armed: ReadonlyMap<string, ArmedKillSwitches> = new Map();
  const knownLedgers: KnownLedgers = new Map();

  const isGood = (table: SignedTable, text: string, mac: string | null): boolean => {
    // Accepts only one spelling of a MAC, so that a cache key is unambiguous.
    if (mac === null || !macForm.test(mac)) return false;
    const seen = `${table} ${mac} ${text}`;
    if (known.has(seen)) return true;
    if (!isSame(mac, vault.mac(`row/${table}`, text))) return false;
    if (known.size >= knownMax) known.clear();
    known.add(seen);
    return true;
  };

  const forged = (forgery: Forgery): GatewayError => {
    meter?.refused(forgery.table);
    reportForgery(deps, forgery, reported);
    return forgedRow(`${forgery.table} ${forgery.key} failed its integrity check`);
  };

  const problemOf = <Table extends SignedTable>(table: Table, row: SignedRow<Table>) => {
    const text = rowText(table, row);
    if (isGood(table, text, row.mac)) return undefined;
    const found = `${text} ${row.mac}`;
    return forged({ tenantId: tenantOf(row), table, key: rowKey(table, row), found });
  };

  return {
    sign: (table, row) => vault.mac(`row/${table}`, rowText(table, row)),
    holds: (table, row) => problemOf(table, row) === undefined,
    assert: (table, row) => {
      const problem = problemOf(table, row);
      if (problem !== undefined) throw problem;
    },
    known: knownLedgers,
    suspect: (rows, armedNow) => {
      suspects = rows;
      armed = armedNow;
    },
    armedIn: (tenantId) => armed.get(tenantId) ?? noneArmed,
    suspectsOf: (tenantId) => suspects.get(tenantId) ?? [],
    assertTrusted: (tenantId) => {
      if (suspects.has(tenantId))
        throw forgedRow('rows of the tenant were deactivated outside the API');
    },
    forged,
  };
}

/** Builds the error. Details go to the log and the ledger, not to the caller. */
function forgedRow(what: string): GatewayError {
  return new GatewayError('integrity.forged_row', { cause: new Error(what) });
}

function isSame(mac: string, expected: string): boolean {
  return mac.length === expected.length && timingSafeEqual(Buffer.from(mac), Buffer.from(expected));
}

/**
 * Returns the tenant of a row. A row of the table `tenant` belongs to the tenant that it describes.
 */
function tenantOf(row: object): string {
  const { tenantId, id } = row as { readonly tenantId?: string; readonly id?: string };
  return tenantId ?? id ?? '';
}

type Plain = Readonly<Record<string, unknown>>;

/** Returns the name of a row within its table, for evidence and logs. */
function rowKey<Table extends SignedTable>(table: Table, row: Partial<SignedRow<Table>>): string {
  const columns: readonly string[] = signedColumns[table].key;
  const { tenantId, ...rest } = row as Plain;
  const own = columns.filter((column) => column !== 'tenantId');
  return own.map((column) => String(rest[column])).join(' ');
}

/**
 * Returns the text of a row's key and signed columns, in the order of `signedColumns`. The text
 * contains the key, so that the signed values of one row are not valid for a different row.
 */
function rowText<Table extends SignedTable>(
  table: Table,
  row: Omit<SignedRow<Table>, 'mac'>,
): string {
  const { key, signed } = signedColumns[table];
  const values = row as Plain;
  const columns: readonly string[] = [...key, ...signed];
  const added = addedColumns(table).filter((column) => isSet(values[column]));
  return JSON.stringify([
    ...columns.map((column) => plain(values[column])),
    ...added.map((column) => [column, plain(values[column])]),
  ]);
}

function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== null;
}

/**
 * Converts timestamps to milliseconds, and JSON columns to canonical form, because jsonb does not
 * keep the order of members.
 */
function plain(value: unknown): unknown {
  if (value === undefined || value === null) return null;
  if (value instanceof Date) return value.getTime();
  if (Array.isArray(value) || typeof value !== 'object') return value;
  return canonicalJson(JSON.parse(JSON.stringify(value)));
}
