import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventsOf, type TestServices, testServices } from '../../support/control-plane/services.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { startProgram } from '../../support/programs/processes.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
const masterKey = randomBytes(32);
let made: Awaited<ReturnType<typeof admin>>;
beforeAll(async () => {
  database = await freshDatabase();
  // This is the first command on this database. It creates the keys that later commands use.
  made = await admin('create-tenant', 'Acme');
  services = await testServices({ databaseUrl: database.url, masterKey });
}, 60_000);
afterAll(async () => {
  await services?.close();
  await database?.drop();
});

async function admin(...args: string[]) {
  const env = {
    DATABASE_URL: database.url,
    SALLYPORT_MASTER_KEY: masterKey.toString('base64'),
    SALLYPORT_LOG_LEVEL: 'silent',
  };
  const program = startProgram('cli/main.ts', env, { args: ['admin', ...args] });
  return { code: await program.exited(), text: program.output() };
}

const planOf = async (id: string) => (await services.db.tenant.findUnique({ where: { id } }))?.plan;

describe('sallyport admin', () => {
  it('creates a tenant with an owner key, and sets a signed plan that the tenant’s ledger records', async () => {
    expect(made, made.text).toMatchObject({ code: 0, text: expect.stringMatching(/apk_\w{20,}/) });
    expect(await planOf('acme')).toBe('enterprise');
    const set = await admin('set-plan', 'acme', 'team');
    expect(set, set.text).toMatchObject({ code: 0 });
    expect(await planOf('acme')).toBe('team');
    expect(await eventsOf(services, 'acme')).toContainEqual(
      expect.objectContaining({
        type: 'tenant.plan_set',
        data: { by: 'operator', before: 'enterprise', plan: 'team' },
      }),
    );
    const row = await services.db.tenant.findUniqueOrThrow({ where: { id: 'acme' } });
    expect(services.guard.holds('tenant', row)).toBe(true);
  });

  it('creates a key for a second person without recording an existing key as its creator', async () => {
    const created = await admin('create-key', 'acme', 'owner', 'olga');
    expect(created, created.text).toMatchObject({
      code: 0,
      text: expect.stringMatching(/apk_\w{20,}/),
    });
    const [olga, first] = ['olga', 'owner'].map((principal) =>
      services.db.apiKey.findFirstOrThrow({ where: { tenantId: 'acme', principal } }),
    );
    for (const row of [await olga, await first]) {
      expect(row).toMatchObject({ role: 'owner', createdBy: 'operator', mintedBy: [] });
    }
  });

  it.each([
    ['a role for machines', ['create-key', 'acme', 'gateway', 'olga'], 1, 'owner, admin'],
    ['a reserved name', ['create-key', 'acme', 'owner', 'sidecar:1'], 1, 'name of a person'],
    [
      'a key for an unknown tenant',
      ['create-key', 'nobody', 'owner', 'olga'],
      1,
      'no tenant nobody',
    ],
    ['a key without a person', ['create-key', 'acme', 'owner'], 2, "argument 'principal'"],
    ['an unknown plan', ['set-plan', 'acme', 'gold'], 1, 'free, team, enterprise'],
    ['an unknown tenant', ['set-plan', 'nobody', 'team'], 1, 'no tenant nobody'],
    ['an existing name', ['create-tenant', 'acme'], 1, 'exists'],
    ['no plan', ['set-plan', 'acme'], 2, "argument 'plan'"],
    ['a surplus argument', ['create-tenant', 'two', 'words'], 2, 'got 2: two, words.'],
    ['an unknown option', ['create-tenant', '--name=x'], 2, '--name'],
    ['an unknown command', ['create-tenat', 'x'], 2, 'Did you mean create-tenant?'],
    ['no command', [], 2, 'Usage'],
  ])('refuses %s and states the reason', async (_what, args, code, words) => {
    const refused = await admin(...args);
    expect(refused, refused.text).toMatchObject({ code, text: expect.stringContaining(words) });
    expect(await planOf('acme')).toBe('team');
  });
});

describe('sallyport admin migrate', () => {
  it('needs no setting except DATABASE_URL; applies all migrations, and none when it is run again', async () => {
    const empty = await freshDatabase();
    try {
      const migrate = async () => {
        const args = ['admin', 'migrate'];
        const program = startProgram('cli/main.ts', { DATABASE_URL: empty.url }, { args });
        return { code: await program.exited(), text: program.output() };
      };
      const first = await migrate();
      expect(first, first.text).toMatchObject({
        code: 0,
        text: expect.stringMatching(/Applied \d/),
      });
      const second = await migrate();
      expect(second, second.text).toMatchObject({
        code: 0,
        text: expect.stringContaining('no pending migrations'),
      });
    } finally {
      await empty.drop();
    }
  });

  it('names DATABASE_URL if it is not set', async () => {
    const program = startProgram('cli/main.ts', {}, { args: ['admin', 'migrate'] });
    expect(await program.exited()).toBe(1);
    expect(program.output()).toContain('DATABASE_URL is not set');
  });
});
