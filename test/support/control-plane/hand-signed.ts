import type { RowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { signRow } from '../../../control-plane/platform/integrity/sign-row.ts';
import type {
  SignedRow,
  SignedTable,
} from '../../../control-plane/platform/store/signed-columns.ts';
import type { Transaction } from '../../../control-plane/platform/store/transaction.ts';

/** Tables to which tests write directly, with the names under which their rows are signed. */
const tables: Readonly<Record<string, SignedTable>> = {
  agent: 'agent',
  apiKey: 'api_key',
  approval: 'approval',
  directoryUser: 'directory_user',
  killSwitch: 'kill_switch',
  policy: 'policy',
  sidecar: 'sidecar',
  signingKey: 'signing_key',
  tenant: 'tenant',
  tool: 'tool',
};

type Row = SignedRow<SignedTable>;
type Args = { readonly where?: object; readonly data?: readonly object[] };
interface Delegate {
  readonly findMany: (args: Args) => Promise<readonly Row[]>;
  readonly [operation: string]: (args: Args) => Promise<unknown>;
}

/**
 * Returns a client like the given one, but signs the rows that tests write directly, as if the
 * control plane had written them. Does not sign writes in a transaction or by SQL, so that tests
 * can forge rows.
 */
export function handSigned<Client extends Pick<Transaction, '$executeRaw'>>(
  client: Client,
  guard: RowGuard,
): Client {
  const delegates = new Map<string, unknown>();
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      const table = typeof name === 'string' ? tables[name] : undefined;
      if (table === undefined || typeof name !== 'string') {
        return typeof value === 'function' ? value.bind(target) : value;
      }
      const made = delegates.get(name) ?? signing(value as Delegate, target, { guard, table });
      delegates.set(name, made);
      return made;
    },
  });
}

function signing(
  delegate: Delegate,
  client: Pick<Transaction, '$executeRaw'>,
  { guard, table }: { readonly guard: RowGuard; readonly table: SignedTable },
): Delegate {
  const sign = async (rows: readonly Row[]) => {
    for (const row of rows) await signRow(client, { guard }, table, row);
  };
  const one = (operation: string) => async (args: Args) => {
    const row = (await delegate[operation]?.(args)) as Row;
    await sign([row]);
    return row;
  };
  const own: Record<string, (args: Args) => Promise<unknown>> = {
    create: one('create'),
    update: one('update'),
    upsert: one('upsert'),
    createMany: async (args) => {
      const made = await delegate.createMany?.(args);
      // Rows that the product writes are already signed. If they were signed here, rows that a test
      // has forged would be signed, too.
      if (!isSigned(args)) await sign(await delegate.findMany({ where: { mac: null } }));
      return made;
    },
    updateMany: async ({ where, ...args }) => {
      const before = await delegate.findMany(where === undefined ? {} : { where });
      const made = await delegate.updateMany?.({ ...args, ...(where && { where }) });
      const names = new Set(before.map(nameOf));
      await sign((await delegate.findMany({})).filter((row) => names.has(nameOf(row))));
      return made;
    },
  };
  return new Proxy(delegate, {
    get: (target, name) => own[String(name)] ?? Reflect.get(target, name, target),
  });
}

/** Returns a text that identifies a row. Direct updates do not change a row's key. */
function nameOf(row: Row): string {
  const { tenantId, id, kid, name } = row as unknown as Record<string, unknown>;
  return JSON.stringify([tenantId, id ?? kid ?? name]);
}

function isSigned({ data }: Args): boolean {
  return (data ?? []).every((row) => 'mac' in row);
}
