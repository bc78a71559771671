import type { Pool } from 'pg';
import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import type { Config } from './config/config.ts';
import type { RowGuard } from './integrity/row-guard.ts';
import type { SigningKeys } from './signing-keys/signing-keys.ts';
import type { PrismaClient } from './store/generated/client.ts';
import type { Upstream } from './upstream/open-upstream.ts';
import type { Vault } from './vault/vault.ts';

/** Infrastructure that all parts of the control plane use. */
export interface Platform {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly db: PrismaClient;
  /** The pool under `db`, used for the hot path: sealing. */
  readonly pool: Pool;
  readonly bus: Bus;
  readonly vault: Vault;
  /** Verifies that the control plane signed a database row. */
  readonly guard: RowGuard;
  readonly signingKeys: SigningKeys;
  readonly upstream: Upstream;
}
