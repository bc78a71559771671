import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { rootPlace } from './open-keys.ts';

/** A column that contains vault envelopes. */
export interface SealedColumn {
  readonly table: string;
  readonly column: string;
  /** Columns of the primary key. */
  readonly key: readonly string[];
  /** Columns that form the id of the sealed place. */
  readonly place: readonly string[];
  readonly idOf: (place: readonly string[]) => string;
}

const only = ([id = '']: readonly string[]): string => id;

/** Every column that contains vault envelopes. A test compares this list with the schema. */
export const sealedColumns: readonly SealedColumn[] = [
  { table: 'vault_root', column: 'sealed', key: ['id'], place: [], idOf: () => rootPlace.id },
  { table: 'signing_key', column: 'sealed', key: ['tenant_id', 'kid'], place: ['kid'], idOf: only },
  { table: 'credential', column: 'sealed', key: ['id'], place: ['id'], idOf: only },
  { table: 'install', column: 'sealed', key: ['id'], place: ['channel'], idOf: only },
  { table: 'sink', column: 'sealed', key: ['id'], place: ['id'], idOf: only },
  { table: 'delivery', column: 'sealed', key: ['id'], place: ['id'], idOf: only },
  {
    table: 'approval',
    column: 'proposed_args',
    key: ['id'],
    place: ['id'],
    idOf: ([id]) => `${id}:proposed`,
  },
  {
    table: 'approval',
    column: 'effective_args',
    key: ['id'],
    place: ['id'],
    idOf: ([id]) => `${id}:effective`,
  },
  {
    table: 'idempotency',
    column: 'body',
    key: ['tenant_id', 'key_id', 'agent_id', 'operation', 'key'],
    place: ['key_id', 'agent_id', 'operation', 'key'],
    idOf: (place) => canonicalJson([...place]),
  },
  {
    table: 'evidence_salt',
    column: 'sealed',
    key: ['tenant_id', 'event_id'],
    place: ['event_id'],
    idOf: only,
  },
  {
    table: 'evidence_salt',
    column: 'arguments',
    key: ['tenant_id', 'event_id'],
    place: ['event_id'],
    idOf: only,
  },
];
