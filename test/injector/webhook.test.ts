import fastJsonPatch from 'fast-json-patch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { Injector } from '../../injector/main.ts';
import { injectPod } from '../../injector/pod/inject.ts';
import type { Pod } from '../../injector/pod/pod.ts';
import { until } from '../support/base/until.ts';
import type { ApiServer } from '../support/injector/api-server.ts';
import { injection } from '../support/injector/injection.ts';
import {
  callWebhook,
  openCluster,
  openInjector,
  publishedAuthorities,
} from '../support/injector/stage.ts';
import { Cleanup } from '../support/sidecar/proxy.ts';
import { changeCases } from './changes.ts';
import { container, pod } from './pod-case.ts';
import { podCases } from './pods.ts';
import { codesIn, type Request, review } from './review.ts';

const cleanup = new Cleanup();
let api: ApiServer;
let injector: Injector;
beforeAll(async () => {
  api = await openCluster(cleanup);
  injector = await openInjector(api, cleanup);
  await until(() => publishedAuthorities(api) !== undefined);
});
afterAll(() => cleanup.run());

interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly patchType?: string;
  readonly patch?: string;
  readonly status?: { readonly code: number; readonly message: string };
}

async function ask(path: string, request: Request): Promise<Response> {
  const ca = publishedAuthorities(api) ?? '';
  const answer = await callWebhook(injector.port, { path, body: review(request), ca });
  expect(answer.status).toBe(200);
  const { response } = JSON.parse(answer.body) as { readonly response: Response };
  expect(response.uid).toBe('uid-1');
  return response;
}

/** Returns the pod after the mutating webhook; a third-party library applies the webhook's patch. */
async function injected(given: Pod): Promise<Pod> {
  const { allowed, patch, patchType } = await ask('/inject', {
    operation: 'CREATE',
    object: given,
  });
  expect(allowed).toBe(true);
  if (patch === undefined) return given;
  expect(patchType).toBe('JSONPatch');
  const operations = JSON.parse(Buffer.from(patch, 'base64').toString());
  return fastJsonPatch.applyPatch(structuredClone(given), operations, true).newDocument;
}

async function codes(path: string, request: Request): Promise<readonly string[]> {
  const { allowed, status } = await ask(path, request);
  const found = codesIn(status?.message.split('\n') ?? []);
  expect(allowed).toBe(found.length === 0);
  return found;
}

describe('a new pod with', () => {
  it.each(podCases)('$title is injected and judged as expected', async (one) => {
    const { namespace = 'enabled', isInjected = true, refused = [] } = one;
    const result = await injected(one.pod);
    const names = (result.spec.initContainers ?? []).map(({ name }) => name);
    const own = ['sallyport-network', 'sallyport-sidecar', 'sallyport-validate'];
    expect(names.slice(0, 3)).toEqual(isInjected ? own : names.slice(0, 3));
    expect(names.filter((name) => own.includes(name))).toHaveLength(isInjected ? 3 : 0);
    const request = { operation: 'CREATE', object: result } as const;
    expect(await codes(`/guard/${namespace}`, request)).toEqual([...refused].toSorted());
  });
});

describe('injection', () => {
  it.each(podCases)('changes nothing when it is repeated: $title', async (one) => {
    const once = await injected(one.pod);
    expect(await injected(once)).toEqual(once);
  });

  it.each([
    'one container',
    'init containers, which start after the redirect',
    'every annotation',
    'options of Java, which are kept',
  ])('produces the pod in the golden file: %s', async (title) => {
    const one = podCases.find((each) => each.title === title);
    const result = await injected(one?.pod ?? pod());
    const file = `golden/${title.replaceAll(/[^a-z]+/gi, '-').toLowerCase()}.yaml`;
    await expect(stringify(result)).toMatchFileSnapshot(file);
  });

  it('includes containers that another webhook adds later, if it is repeated', async () => {
    const once = await injected(pod());
    const added = { ...once.spec, containers: [...once.spec.containers, container({ name: 'x' })] };
    const initContainers = [container({ name: 'y' }), ...(once.spec.initContainers ?? [])];
    const twice = await injected({ ...once, spec: { ...added, initContainers } });
    const all = [...twice.spec.containers, ...(twice.spec.initContainers ?? [])];
    const trusting = all.filter(({ env = [] }) => env.some(({ name }) => name === 'SSL_CERT_FILE'));
    expect(trusting.map(({ name }) => name)).toEqual(['agent', 'x', 'y']);
    expect(twice.spec.initContainers?.[0]?.name).toBe('sallyport-network');
  });

  it('sets no proxy variables', async () => {
    const text = JSON.stringify(await injected(pod()));
    expect(text).not.toMatch(/https?_proxy|all_proxy/i);
  });
});

describe('the guard', () => {
  it.each(changeCases)('returns the expected codes for $title', async ({ request, refused }) => {
    expect(await codes('/guard/enabled', request)).toEqual([...refused].toSorted());
  });

  it('names every container at fault, and states what to do', async () => {
    const bad = container({ name: 'second', securityContext: { runAsUser: 1337 } });
    const given = injectPod(pod({ spec: { containers: [container(), bad] } }), injection);
    const { status } = await ask('/guard/enabled', { operation: 'CREATE', object: given });
    expect(status?.code).toBe(403);
    expect(status?.message).toMatch(/^admission\.sidecar_user: .*use other ids.*\(second\)$/m);
  });
});

describe('the server', () => {
  const call = async (given: Partial<Parameters<typeof callWebhook>[1]>) =>
    callWebhook(injector.port, {
      path: '/inject',
      body: review({ operation: 'CREATE', object: pod() }),
      ca: publishedAuthorities(api) ?? '',
      ...given,
    });

  it.each([
    ['text that is not JSON', { body: 'pod' }, 400],
    ['an object of another kind', { body: '{"kind":"Pod"}' }, 400],
    [
      'a pod without containers',
      { body: review({ operation: 'CREATE', object: { spec: {} } }) },
      400,
    ],
    ['a deletion', { body: review({ operation: 'DELETE', object: null }) }, 400],
    ['an unknown path', { path: '/toString' }, 404],
    ['GET', { method: 'GET', body: '' }, 405],
    ['a body of 9 MB', { body: ' '.repeat(9 * 1024 ** 2) }, 413],
  ])('refuses %s', async (_, given, status) => {
    const answer = await call(given);
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body)).toMatchObject({ code: expect.stringMatching(/^request\./) });
  });

  it('accepts the query parameter that the API server adds', async () => {
    expect((await call({ path: '/inject?timeout=5s' })).status).toBe(200);
  });

  it('refuses TLS versions below 1.2', async () => {
    await expect(call({ maxVersion: 'TLSv1.1' })).rejects.toThrow();
    expect((await call({ maxVersion: 'TLSv1.2' })).status).toBe(200);
  });

  it('exports its metrics and its readiness', async () => {
    const admin = `http://127.0.0.1:${injector.adminPort}`;
    expect((await fetch(`${admin}/readyz`)).status).toBe(200);
    const metrics = await (await fetch(`${admin}/metrics`)).text();
    expect(metrics).toMatch(/sallyport_injector_refusals_total\{code="admission\.privileged"\} \d/);
    expect(metrics).toMatch(/sallyport_injector_certificate_expiry_seconds \d+/);
  });
});
