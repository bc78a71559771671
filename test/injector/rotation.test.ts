import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Injector } from '../../injector/main.ts';
import { type ManualClock, manualClock } from '../support/base/manual-clock.ts';
import { until } from '../support/base/until.ts';
import type { ApiServer } from '../support/injector/api-server.ts';
import {
  callWebhook,
  openCluster,
  openInjector,
  publishedAuthorities,
  secretPath,
  serviceHost,
  storedMaterial,
} from '../support/injector/stage.ts';
import { Cleanup } from '../support/sidecar/proxy.ts';
import { pod } from './pod-case.ts';
import { review } from './review.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

let cleanup: Cleanup;
let clock: ManualClock;
let api: ApiServer;
beforeEach(async () => {
  cleanup = new Cleanup();
  clock = manualClock();
  api = await openCluster(cleanup);
});
afterEach(() => cleanup.run());

async function openReplica(): Promise<Injector> {
  const injector = await openInjector(api, cleanup, { clock });
  await until(() => publishedAuthorities(api) !== undefined);
  return injector;
}

/**
 * Returns the certificate that a replica presents, after verifying it against the published authorities.
 * Node would verify the chain at the real time, so this function verifies it at the manual clock's time.
 */
async function presented({ port }: Injector): Promise<X509Certificate> {
  const body = review({ operation: 'CREATE', object: pod() });
  const bundle = publishedAuthorities(api) ?? '';
  const { certificate } = await callWebhook(port, {
    path: '/inject',
    body,
    ca: bundle,
    anyTime: true,
  });
  const leaf = new X509Certificate(certificate);
  const authorities = splitPem(bundle).map((pem) => new X509Certificate(pem));
  const isValid = (one: X509Certificate) =>
    one.validFromDate.getTime() <= clock.now() && one.validToDate.getTime() > clock.now();
  const issuer = authorities.find((one) => isValid(one) && leaf.verify(one.publicKey));
  expect(issuer, 'a valid published authority signed the certificate').toBeDefined();
  expect(isValid(leaf), 'the certificate is valid now').toBe(true);
  expect(leaf.checkHost(serviceHost)).toBe(serviceHost);
  return leaf;
}

function splitPem(text: string): string[] {
  return text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];
}

describe('the certificate of the webhook', () => {
  it('is created and published by the first replica and used by the second', async () => {
    const one = await openReplica();
    const other = await openReplica();
    expect((await presented(one)).fingerprint256).toBe((await presented(other)).fingerprint256);
    expect(api.writes.filter((write) => write.startsWith('POST'))).toHaveLength(1);
  });

  it('is the same for two replicas that start at the same moment', async () => {
    const [one, other] = await Promise.all([openReplica(), openReplica()]);
    await one.checkCertificate();
    await other.checkCertificate();
    expect((await presented(one)).fingerprint256).toBe((await presented(other)).fingerprint256);
  });

  it('never expires during 250 days of regular checks, in which the authority changes several times', async () => {
    const one = await openReplica();
    const other = await openReplica();
    const leaves = new Set<string>();
    const bundles = new Set<string | undefined>();
    for (let passedMs = 0; passedMs < 250 * dayMs; passedMs += 7 * hourMs) {
      clock.advance(7 * hourMs);
      await one.checkCertificate();
      await other.checkCertificate();
      if (passedMs % (5 * 7 * hourMs) !== 0) continue;
      leaves.add((await presented(one)).fingerprint256);
      leaves.add((await presented(other)).fingerprint256);
      bundles.add(publishedAuthorities(api));
    }
    expect(leaves.size).toBeGreaterThan(100);
    expect(bundles.size).toBeGreaterThan(4);
  });

  it.each([
    ['a day', dayMs],
    ['45 days', 45 * dayMs],
    ['a year', 365 * dayMs],
  ])('is renewed by the first check after a pause of %s', async (_, pauseMs) => {
    const injector = await openReplica();
    clock.advance(pauseMs);
    await injector.checkCertificate();
    await presented(injector);
  });

  it('is signed by a new authority only after this authority was published', async () => {
    const injector = await openReplica();
    const old = storedMaterial(api).ca;
    clock.advance(61 * dayMs);
    await injector.checkCertificate();
    const [added = '', kept] = splitPem(publishedAuthorities(api) ?? '');
    expect(kept?.trim()).toBe(old.trim());
    clock.advance(11 * 60_000);
    await injector.checkCertificate();
    clock.advance(17 * hourMs);
    await injector.checkCertificate();
    const leaf = await presented(injector);
    expect(leaf.verify(new X509Certificate(added).publicKey)).toBe(true);
  });

  it('is renewed even if the Secret can no longer be written', async () => {
    const injector = await openReplica();
    const first = await presented(injector);
    api.forbid(secretPath);
    for (let hours = 0; hours < 72; hours += 6) {
      clock.advance(6 * hourMs);
      await injector.checkCertificate();
      await presented(injector);
    }
    expect((await presented(injector)).fingerprint256).not.toBe(first.fingerprint256);
  });

  it('makes the injector unready after it expires', async () => {
    const injector = await openReplica();
    const readyz = `http://127.0.0.1:${injector.adminPort}/readyz`;
    expect((await fetch(readyz)).status).toBe(200);
    clock.advance(2 * dayMs);
    const answer = await fetch(readyz);
    expect(answer.status).toBe(503);
    expect(await answer.text()).toMatch(/certificate expired/);
  });
});

describe('the Secret of the certificate', () => {
  it.each([
    ['is empty, as another program created it', {}],
    ['holds damaged text', { 'ca.crt': 'AAAA', 'ca.key': 'AAAA', 'tls.crt': '!', 'tls.key': '' }],
  ])('is filled again if it %s', async (_, data) => {
    api.put(secretPath, { metadata: { name: 'sallyport-injector-tls' }, data });
    await presented(await openReplica());
  });

  it('is filled again if somebody empties one of its entries', async () => {
    const injector = await openReplica();
    const stored = api.object(secretPath);
    const damaged = { ...(stored?.data as object), 'tls.key': '' };
    api.put(secretPath, { metadata: { name: 'sallyport-injector-tls' }, data: damaged });
    await injector.checkCertificate();
    expect(storedMaterial(api).key).toMatch(/PRIVATE KEY/);
    await presented(injector);
  });

  it('keeps the labels that the chart or an operator set', async () => {
    const labels = { team: 'platform' };
    api.put(secretPath, { metadata: { name: 'sallyport-injector-tls', labels }, data: {} });
    await openReplica();
    expect(api.object(secretPath)?.metadata).toMatchObject({ labels });
  });
});

it('the authorities are published again after somebody overwrites the webhook configuration', async () => {
  const injector = await openReplica();
  const path = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sallyport';
  const webhooks = [{ name: 'namespaces', clientConfig: {} }];
  api.put(path, { metadata: { name: 'sallyport' }, webhooks });
  await injector.checkCertificate();
  expect(publishedAuthorities(api)).toBe(storedMaterial(api).ca);
});
