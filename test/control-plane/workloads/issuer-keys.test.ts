import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { discoveryPath, jwksPath } from '../../support/control-plane/oidc-issuer.ts';
import { startWorkloadStage, type WorkloadStage } from './stage.ts';

let stage: WorkloadStage;
const start = async (options?: Parameters<typeof startWorkloadStage>[0]) => {
  stage = await startWorkloadStage(options);
  await stage.put('refunds');
};
const enrol = async (token?: string) => stage.enrol(token ?? (await stage.issuer.token()));
const codeOf = async (call: Promise<unknown>) => (await refusalOf(call)).code;
const fetches = (path = jwksPath) => stage.issuer.asked.filter((one) => one.path === path).length;

describe('the keys of an issuer', () => {
  beforeAll(() => start());
  afterAll(() => stage.close());

  it('are fetched once for concurrent and later enrolments', async () => {
    const tokens = await Promise.all([1, 2, 3, 4].map(() => stage.issuer.token()));
    await Promise.all(tokens.map((token) => enrol(token)));
    await enrol();
    expect(fetches()).toBe(1);
    expect(fetches(discoveryPath)).toBe(1);
  });

  it('are fetched again for a token with an unknown key id, at most once every thirty seconds', async () => {
    const former = await stage.issuer.token();
    await stage.issuer.rotate('ES256');
    const before = fetches();
    expect(await codeOf(enrol())).toBe('workload.key_unknown');
    expect(fetches()).toBe(before);
    stage.gateway.services.clock.advance(30_000);
    expect(await enrol()).toHaveProperty('sidecar_id');
    expect(fetches()).toBe(before + 1);
    // The issuer no longer publishes the former key.
    expect(await codeOf(enrol(former))).toBe('workload.key_unknown');
    expect(fetches()).toBe(before + 1);
  });

  it('are accepted for at most ten minutes after the issuer withdrew them', async () => {
    await enrol();
    stage.gateway.services.clock.advance(599_000);
    const token = await stage.issuer.token();
    await stage.issuer.rotate();
    stage.gateway.services.clock.advance(1_001);
    expect(await codeOf(enrol(token))).toBe('workload.key_unknown');
  });

  it('verify tokens at the time of the wall clock, even after this clock was set forward or back', async () => {
    await enrol();
    const { clock } = stage.gateway.services;
    const token = await stage.issuer.token();
    const nowMs = clock.now();
    clock.setWall(nowMs + 3_600_000);
    expect(await codeOf(enrol(token))).toBe('workload.token_expired');
    clock.setWall(nowMs - 3_600_000);
    expect(await codeOf(enrol(token))).toBe('workload.token_not_yet_valid');
    clock.setWall(nowMs);
    expect(await enrol(token)).toHaveProperty('sidecar_id');
  });
});

const html = (res: ServerResponse) => {
  res.writeHead(200, { 'content-type': 'text/html' });
  res.end('<!doctype html><title>Sign in</title>');
};

/** Responses that contain no usable keys. */
const broken: readonly (readonly [
  what: string,
  path: string,
  answer: (res: ServerResponse) => void,
])[] = [
  ['status 500', jwksPath, (res) => res.writeHead(500).end()],
  ['status 401', jwksPath, (res) => res.writeHead(401).end('{"keys":[]}')],
  ['HTML', jwksPath, html],
  ['HTML as its discovery document', discoveryPath, html],
  ['a redirect', jwksPath, (res) => res.writeHead(302, { location: '/elsewhere' }).end()],
  ['a redirect of discovery', discoveryPath, (res) => res.writeHead(307, { location: '/x' }).end()],
  ['a list instead of an object', jwksPath, (res) => res.end('[]')],
  ['no list of keys', jwksPath, (res) => res.end('{}')],
  ['an endless response', jwksPath, (res) => endless(res)],
  ['a response that is cut', jwksPath, (res) => cut(res)],
  [
    'another issuer in its discovery document',
    discoveryPath,
    (res) => res.end(discovered({ issuer: 'https://other.example' })),
  ],
  ['no jwks_uri', discoveryPath, (res) => res.end(discovered({ jwks_uri: undefined }))],
  [
    'an http jwks_uri',
    discoveryPath,
    (res) => res.end(discovered({ jwks_uri: 'http://127.0.0.1/keys' })),
  ],
  [
    'a file as jwks_uri',
    discoveryPath,
    (res) => res.end(discovered({ jwks_uri: 'file:///etc/passwd' })),
  ],
  [
    'a jwks_uri at a private address that the operator did not configure',
    discoveryPath,
    (res) => res.end(discovered({ jwks_uri: 'https://127.0.0.1:1/keys' })),
  ],
];

function discovered(changes: object): string {
  const { issuer } = stage.issuer;
  return JSON.stringify({ issuer, jwks_uri: `${issuer}${jwksPath}`, ...changes });
}

function endless(res: ServerResponse): void {
  const chunk = ' '.repeat(64 * 1024);
  const write = () => {
    while (!res.destroyed && res.write(chunk));
  };
  res.on('drain', write);
  write();
}

function cut(res: ServerResponse): void {
  res.writeHead(200, { 'content-length': '1000' });
  res.write('{"keys":');
  setImmediate(() => res.destroy());
}

describe('an issuer that answers with', () => {
  beforeAll(() => start());
  afterAll(() => stage.close());
  afterEach(() => {
    stage.issuer.behave(jwksPath, undefined);
    stage.issuer.behave(discoveryPath, undefined);
  });

  it.each(broken)('%s causes a refusal that can be retried', async (_what, path, answer) => {
    // By this time, both the cached keys and the cached failure have expired.
    stage.gateway.services.clock.advance(600_001);
    stage.issuer.behave(path, (_req, res) => answer(res));
    const error = await refusalOf(enrol());
    expect(error.code).toBe('workload.keys_unavailable');
    expect(error.details).toMatchObject({ status: 503 });
    expect(error.message).not.toMatch(/127\.0\.0\.1|other\.example/);
    stage.issuer.behave(path, undefined);
    expect(await codeOf(enrol())).toBe('workload.keys_unavailable');
    stage.gateway.services.clock.advance(2_001);
    expect(await enrol()).toHaveProperty('sidecar_id');
  });

  it('nothing at all causes a refusal within seconds; concurrent callers share one request', async () => {
    stage.gateway.services.clock.advance(600_001);
    const before = fetches();
    stage.issuer.behave(jwksPath, () => {});
    const codes = await Promise.all([1, 2, 3].map(() => codeOf(enrol())));
    expect(new Set(codes)).toEqual(new Set(['workload.keys_unavailable']));
    expect(fetches()).toBe(before + 1);
  }, 60_000);

  it('a slow, endless response causes a refusal within seconds', async () => {
    stage.gateway.services.clock.advance(600_001);
    stage.issuer.behave(jwksPath, (_req, res) => {
      const drip = setInterval(() => res.write(' '), 100);
      res.on('close', () => clearInterval(drip));
    });
    expect(await codeOf(enrol())).toBe('workload.keys_unavailable');
  }, 60_000);
});

describe('an issuer with a token file', () => {
  afterEach(() => stage.close());
  const bearer = 'Bearer kubelet-token-1';
  const withToken = (issuer: WorkloadStage['issuer']) => {
    const token_file = join(issuer.folder, 'token');
    writeFileSync(token_file, 'kubelet-token-1\n');
    return { token_file };
  };

  it('receives the token, which is read from the file again for each request', async () => {
    await start({ setting: withToken });
    await enrol();
    expect(stage.issuer.asked.map(({ authorization }) => authorization)).toEqual([bearer, bearer]);
    writeFileSync(join(stage.issuer.folder, 'token'), 'kubelet-token-2');
    stage.gateway.services.clock.advance(600_001);
    await enrol();
    expect(stage.issuer.asked.at(-1)?.authorization).toBe('Bearer kubelet-token-2');
  });

  it('cannot have the token sent to another origin by naming this origin in its discovery document', async () => {
    await start({ setting: withToken, env: { SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8' } });
    const jwks_uri = stage.issuer.issuer.replace('127.0.0.1', 'localhost');
    stage.issuer.behave(discoveryPath, (_req, res) => res.end(discovered({ jwks_uri })));
    expect(await codeOf(enrol())).toBe('workload.keys_unavailable');
    expect(stage.issuer.asked.slice(1).map(({ authorization }) => authorization)).not.toContain(
      bearer,
    );
  });
});

describe('an issuer whose keys are', () => {
  afterEach(() => stage.close());

  it('at a configured URL needs no discovery', async () => {
    await start({ setting: ({ issuer }) => ({ jwks_url: `${issuer}${jwksPath}` }) });
    expect(await enrol()).toHaveProperty('sidecar_id');
    expect(fetches(discoveryPath)).toBe(0);
  });

  it('in a file receives no request; after a rotation, the changed file is read', async () => {
    const file = (issuer: WorkloadStage['issuer']) => join(issuer.folder, 'keys.json');
    await start({
      setting: (issuer) => {
        writeFileSync(file(issuer), JSON.stringify(issuer.jwks()));
        return { jwks_file: file(issuer), ca_file: undefined };
      },
    });
    expect(await enrol()).toHaveProperty('sidecar_id');
    await stage.issuer.rotate();
    writeFileSync(file(stage.issuer), JSON.stringify(stage.issuer.jwks()));
    stage.gateway.services.clock.advance(30_000);
    expect(await enrol()).toHaveProperty('sidecar_id');
    expect(stage.issuer.asked).toEqual([]);
  });

  it('behind a certificate of an untrusted authority receives no request', async () => {
    await start({ setting: () => ({ ca_file: undefined }) });
    expect(await codeOf(enrol())).toBe('workload.keys_unavailable');
    expect(stage.issuer.asked).toEqual([]);
  });
});
