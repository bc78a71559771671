import { isPlanForeign } from '../../platform/store/kept-plan.ts';

/**
 * Why a batch could not be written: an event of it is sealed already (`duplicate`), the database
 * will never take what an event holds (`data`), or something that may pass (`passing`): no
 * connection, a time-out, a failover, no key to sign with. `plan`: connections share a session, as
 * those of the embedded database and of poolers do, and a plan kept under a name is not this
 * connection's own.
 */
type SealErrorKind = 'duplicate' | 'data' | 'plan' | 'passing';

const dataStates = /^(22|54|23502|23514)/;

export function sealErrorKind(error: unknown): SealErrorKind {
  const { code, constraint } = fieldsOf(error);
  if (code === '23505' && constraint === 'evidence_row_tenant_id_event_id_key') return 'duplicate';
  if (isPlanForeign(error)) return 'plan';
  return dataStates.test(code) ? 'data' : 'passing';
}

function fieldsOf(error: unknown): { readonly code: string; readonly constraint: string } {
  const { code, constraint } = (typeof error === 'object' && error !== null ? error : {}) as {
    readonly code?: unknown;
    readonly constraint?: unknown;
  };
  return {
    code: typeof code === 'string' ? code : '',
    constraint: typeof constraint === 'string' ? constraint : '',
  };
}
