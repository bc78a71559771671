import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { holdKeys } from '../../../../control-plane/platform/vault/hold-keys.ts';
import { openKms } from '../../../../control-plane/platform/vault/kms/open-kms.ts';
import { createVault } from '../../../../control-plane/platform/vault/vault.ts';
import { renewWrapping } from '../../../../control-plane/vault/renew-wrapping.ts';
import { vaultStatus } from '../../../../control-plane/vault/vault-status.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import {
  type AwsKmsServer,
  startAwsKmsServer,
} from '../../../support/control-plane/aws-kms-server.ts';
import { testConfig } from '../../../support/control-plane/services.ts';
import { signAwsRequest } from '../../../support/control-plane/sign-aws-request.ts';
import {
  startTransitServer,
  type TransitServer,
} from '../../../support/control-plane/transit-server.ts';
import {
  masterKey,
  startVaultWorld,
  tablesUnder,
  type VaultWorld,
} from '../../../support/control-plane/vault-world.ts';
import { Cleanup, testAuthority } from '../../../support/sidecar/proxy.ts';
import { startUpstream } from '../../../support/sidecar/upstream.ts';

const place = { tenantId: 't', purpose: 'credential', id: 'c', version: 1 };
const cleanup = new Cleanup();
const trusted = getCACertificates('default');
let company: string;
let tls: { readonly key: string; readonly cert: string };
let world: VaultWorld;
let transit: TransitServer;
let aws: AwsKmsServer;

beforeAll(() => {
  const authority = testAuthority(cleanup);
  const { key, cert } = authority.leafFor('127.0.0.1');
  tls = { key, cert };
  company = authority.certPem;
  setDefaultCACertificates([...trusted, company]);
});
afterAll(async () => {
  setDefaultCACertificates(trusted);
  await cleanup.run();
});
const worlds = () => {
  beforeEach(async () => {
    [world, transit, aws] = await Promise.all([
      startVaultWorld(),
      startTransitServer(tls),
      startAwsKmsServer(tls),
    ]);
  });
  afterEach(async () => {
    await Promise.all([world.close(), transit.close(), aws.close()]);
  });
};

type Env = Readonly<Record<string, string>>;
const vaultEnv = (): Env => ({
  SALLYPORT_KMS_KEY: transit.key,
  SALLYPORT_KMS_TOKEN: transit.token,
});
const awsEnv = (): Env => ({
  SALLYPORT_KMS_KEY: `aws:${aws.arn}`,
  AWS_ACCESS_KEY_ID: aws.accessKeyId,
  AWS_SECRET_ACCESS_KEY: aws.secretAccessKey,
  AWS_ENDPOINT_URL_KMS: aws.endpoint,
});
const kinds: readonly [string, () => Env][] = [
  ['Vault’s transit engine', vaultEnv],
  ['AWS KMS', awsEnv],
];

/** Stores a credential with a sealed secret. */
async function store(env: Env): Promise<void> {
  const sealed = createVault(await world.open(env)).seal('hunter2', place);
  const common = { tenantId: 't', createdBy: 'p', inject: {}, tools: [], hosts: [] };
  await world.store.db.credential.create({ data: { ...common, id: 'c', name: 'n', sealed } });
}
async function stored(env: Env): Promise<string> {
  const { sealed } = await world.store.db.credential.findUniqueOrThrow({ where: { id: 'c' } });
  return createVault(await world.open(env))
    .open(sealed, place)
    .toString();
}
const activeId = async (env: Env) => (await world.open(env)).keyring.active.id;

describe.each(kinds)('a master key of %s', (_name, env) => {
  worlds();

  it('is created once and decrypted at each start, and the database contains no key in the clear', async () => {
    const opened = await Promise.all([world.open(env()), world.open(env())]);
    expect(new Set(opened.map(({ keyring }) => keyring.active.id)).size).toBe(1);
    await store(env());
    expect(await stored(env())).toBe('hunter2');
    const asked = [...transit.asked, ...aws.asked];
    expect(asked.filter((what) => /^(datakey|Generate)/.test(what))).toHaveLength(1);
  });

  it('can be replaced by a different KMS key, which running processes load by themselves', async () => {
    await store(env());
    const { pool } = world.store;
    const keys = await world.open(env());
    const before = keys.keyring.active.id;
    const running = await holdKeys(keys, { pool, log: silentLog });
    const { active } = await world.rotate(env());
    expect(active).not.toBe(before);
    expect(keys.keyring.active.id).toBe(active);
    expect(await tablesUnder(world, before)).toEqual([]);
    expect(await stored(env())).toBe('hunter2');
    await running.close();
  });

  it('can replace an operator-supplied master key, and an operator-supplied key can replace it', async () => {
    const given = { SALLYPORT_MASTER_KEY: masterKey() };
    await store(given);
    await world.rotate({ ...given, ...env() });
    expect(await stored(env())).toBe('hunter2');
    const next = { SALLYPORT_MASTER_KEY: masterKey() };
    await world.rotate({ ...next, ...env() });
    expect(await stored(next)).toBe('hunter2');
    expect(await tablesUnder(world, await activeId(next))).toContain('credential');
  });

  it('can be wrapped again without changing the key', async () => {
    await store(env());
    const keys = await world.open(env());
    const rows = () => world.store.db.vaultKey.findMany({ select: { id: true, wrapped: true } });
    const before = await rows();
    transit.rotate();
    expect(await renewWrapping(keys, world.store)).toEqual([keys.keyring.active.id]);
    expect((await rows()).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect((await rows())[0]?.wrapped).not.toBe(before[0]?.wrapped);
    transit.forgetOlder();
    expect(await stored(env())).toBe('hunter2');
    expect((await vaultStatus(keys, world.store)).is_settled).toBe(true);
  });

  it('is rejected if the wrapped key of another row was copied over it, even though the KMS decrypts the copy', async () => {
    await store(env());
    const first = await world.store.db.vaultKey.findFirstOrThrow();
    await world.rotate(env());
    await world.store.pool.query('UPDATE vault_key SET wrapped = $1', [first.wrapped]);
    await expect(world.open(env())).rejects.toThrow('returned another master key');
  });

  it('that the KMS does not decrypt prevents the start, and the error quotes neither request nor response', async () => {
    await store(env());
    const { wrapped } = await world.store.db.vaultKey.findFirstOrThrow();
    await world.store.pool.query(`UPDATE vault_key SET wrapped = 'vault:v1:AAAA'`);
    const failed = await world.open(env()).catch((error: Error) => error);
    expect(String(failed)).toMatch(/^KmsError: (Vault|AWS KMS) answered 400$/);
    await world.store.pool.query('UPDATE vault_key SET wrapped = $1', [wrapped]);
    expect(await stored(env())).toBe('hunter2');
  });

  it('cannot be decrypted with wrong KMS credentials', async () => {
    await store(env());
    const wrong = { SALLYPORT_KMS_TOKEN: 'hvs.wrong', AWS_SECRET_ACCESS_KEY: 'wrong' };
    const names = Object.keys(env()).filter((name) => name in wrong);
    const changed = Object.fromEntries(
      names.map((name) => [name, wrong[name as keyof typeof wrong]]),
    );
    await expect(world.open({ ...env(), ...changed })).rejects.toThrow(/answered 40[03]/);
  });
});

describe('a KMS', () => {
  worlds();

  it('with an untrusted certificate never receives the token', async () => {
    setDefaultCACertificates(trusted);
    await expect(world.open(vaultEnv())).rejects.toThrow(/request failed: \w*CERT|SIGNATURE/);
    expect(transit.asked).toEqual([]);
    setDefaultCACertificates([...trusted, company]);
  });

  it('cannot redirect a request', async () => {
    const other = await startUpstream({ tls });
    const astray = await startUpstream({ tls });
    astray.behave((_req, res) => {
      res.writeHead(307, { location: `https://127.0.0.1:${other.port}/` }).end();
    });
    const key = `vault:https://127.0.0.1:${astray.port}/v1/transit/keys/sallyport`;
    await expect(world.open({ ...vaultEnv(), SALLYPORT_KMS_KEY: key })).rejects.toThrow(
      'request failed',
    );
    expect(other.seen).toEqual([]);
    await other.close();
    await astray.close();
  });

  it('and a master key from the operator cannot both be set at a first start', async () => {
    const both = { ...vaultEnv(), SALLYPORT_MASTER_KEY: masterKey() };
    await expect(world.open(both)).rejects.toThrow('set exactly one of them');
  });
});

describe('a request to AWS KMS with temporary credentials', () => {
  worlds();

  it('contains the session token, but no error message contains this token', async () => {
    const env = { ...awsEnv(), AWS_SESSION_TOKEN: 'session-token' };
    await store(env);
    expect(await stored(env)).toBe('hunter2');
    const broken = openKms(testConfig({ ...env, AWS_SESSION_TOKEN: 'session\u0000token' }));
    const failed = await broken?.makeKey().catch((error: Error) => error);
    expect(String(failed)).toMatch(/^KmsError: AWS KMS request failed: \w+$/);
  });
});

describe('the setting SALLYPORT_KMS_KEY', () => {
  it.each([
    [
      'an unknown kind of KMS',
      { SALLYPORT_KMS_KEY: 'gcp:projects/x' },
      'must begin with vault: or aws:',
    ],
    [
      'a URL without a path',
      { SALLYPORT_KMS_KEY: 'vault:https://vault.example' },
      'is named as in',
    ],
    [
      'a URL without TLS',
      {
        SALLYPORT_KMS_KEY: 'vault:http://vault.example/v1/transit/keys/k',
        SALLYPORT_KMS_TOKEN: 't',
      },
      'https',
    ],
    [
      'a Vault key without a token',
      { SALLYPORT_KMS_KEY: 'vault:https://vault.example/v1/transit/keys/k' },
      'SALLYPORT_KMS_TOKEN is missing',
    ],
    ['an AWS key without an ARN', { SALLYPORT_KMS_KEY: 'aws:alias/x' }, 'by its ARN'],
    [
      'an AWS key without AWS credentials',
      { SALLYPORT_KMS_KEY: 'aws:arn:aws:kms:eu-central-1:111122223333:key/x' },
      'AWS_ACCESS_KEY_ID',
    ],
  ])('is refused at start: %s', (_what, env, message) => {
    expect(() => openKms(testConfig(env))).toThrow(message);
  });
});

it('the simulated AWS KMS computes the signature that AWS’s own test suite expects (post-vanilla)', () => {
  const request = {
    url: new URL('https://example.amazonaws.com/'),
    headers: {},
    body: '',
    region: 'us-east-1',
    service: 'service',
    at: new Date('2015-08-30T12:36:00Z'),
  };
  const { authorization } = signAwsRequest(request, {
    accessKeyId: 'AKIDEXAMPLE',
    secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  });
  expect(authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  );
});
