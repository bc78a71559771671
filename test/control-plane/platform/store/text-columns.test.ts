import { afterAll, beforeAll, expect, it } from 'vitest';
import { listEvidenceEvents } from '../../../../shared/contract/evidence/evidence.ts';
import { createPolicy, getPolicy } from '../../../../shared/contract/policies/policies.ts';
import { lintPolicySet } from '../../../../shared/contract/policies/policy-lint.ts';
import { getTool, ingestTool } from '../../../../shared/contract/tools.ts';
import {
  type Gateway,
  refusalOf,
  rule,
  startGateway,
} from '../../../support/control-plane/gateway.ts';
import { tamper } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let gateway: Gateway;
beforeAll(async () => {
  database = await freshDatabase();
  gateway = await startGateway({ databaseUrl: database.url });
});
afterAll(async () => {
  await gateway.close();
  await database.drop();
});

/** Runs a function while a column contains another text, then restores the text. */
async function whileHolding(
  { table, column, where }: Record<'table' | 'column' | 'where', string>,
  text: string,
  call: () => Promise<unknown>,
): Promise<string> {
  const { rows } = await gateway.services.pool.query<{ readonly kept: string }>(
    `select ${column} as kept from ${table} where ${where}`,
  );
  const set = (value: string) =>
    tamper(database.url, `update ${table} set ${column} = $t$${value}$t$ where ${where}`);
  await set(text);
  try {
    return (await refusalOf(call())).code;
  } finally {
    await set(rows[0]?.kept ?? '');
  }
}

it.each(['no JSON', '"text"', '[]', '{}'])(
  'a tool whose stored manifest is %j is refused and not displayed',
  async (text) => {
    const name = 'stored.manifest';
    await gateway.owner.call(ingestTool, { body: { manifest: { name } } });
    const at = { table: 'tool_version', column: 'manifest', where: `name = '${name}'` };
    const read = () => gateway.owner.call(getTool, { params: { name } });
    expect(await whileHolding(at, text, read)).toBe('integrity.forged_row');
    expect(await read()).toMatchObject({ manifest: { name } });
  },
);

it.each(['no JSON', '"text"', '[]'])(
  'a policy whose stored definition is %j is refused by get and lint',
  async (text) => {
    const rules_json = { id: 'stored', version: 1, rules: [rule('allow', 'notes.read')] };
    const body = { name: 'stored', rules_json, publish: true };
    const { id } = await gateway.owner.call(createPolicy, { body });
    const at = { table: 'policy', column: 'definition', where: `id = ${id}` };
    const read = () => gateway.owner.call(getPolicy, { params: { id } });
    expect(await whileHolding(at, text, read)).toBe('integrity.forged_row');
    const lint = () =>
      gateway.owner.call(lintPolicySet, {
        body: { policies: [{ ...rules_json, id: 'other' }], with_published: true },
      });
    expect(await whileHolding(at, text, lint)).toBe('integrity.forged_row');
    expect(await read()).toMatchObject({ rules_json: { id: 'stored' } });
  },
);

it.each(['no JSON', '"text"', '[]', '{}', '{"id":7}'])(
  'a page of events that contains the text %j is refused',
  async (text) => {
    await gateway.publish(rule('allow', 'notes.read'));
    const read = () => gateway.owner.call(listEvidenceEvents, { query: { limit: 5 } });
    const at = { table: 'evidence_row', column: 'canonical', where: 'position = 1' };
    expect(await whileHolding(at, text, read)).toBe('integrity.forged_row');
    expect((await read()).events[0]).toMatchObject({ position: 1, tenant: 'default' });
  },
);
