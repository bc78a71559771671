import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  boardExpressions,
  metricsIn,
  readAlerts,
} from '../../support/programs/monitoring-files.ts';
import { freePort, until } from '../../support/programs/processes.ts';
import { raw } from '../../support/sidecar/proxy.ts';
import { startTelemetryStage, type TelemetryStage } from './telemetry-stage.ts';

/** Parses a page of metrics; returns each metric with its sets of labels. */
function read(page: string): Map<string, string[]> {
  const families = new Map<string, string[]>();
  for (const line of page.split('\n')) {
    const [, name, labels = ''] = /^([a-z_][a-z0-9_]*)(?:\{(.*)\})? /.exec(line) ?? [];
    if (name === undefined) continue;
    families.set(name, [...(families.get(name) ?? []), labels]);
  }
  return families;
}

describe('the metrics', () => {
  let stage: TelemetryStage;
  let controlPlane: () => Promise<string>;

  beforeAll(async () => {
    stage = await startTelemetryStage({ SALLYPORT_MAX_STALENESS_MS: '3000' });
    const { origin } = stage.bench.separate;
    controlPlane = async () => (await fetch(`${origin}/metrics`)).text();
  }, 60_000);
  afterAll(() => stage?.close());

  /** Returns the value of a metric without labels. */
  const valueIn = (page: string, name: string) =>
    Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1]);
  const becomes = (name: string, holds: (value: number) => boolean, page = stage.metrics) =>
    until(`${name} holds`, async () => holds(valueIn(await page(), name)));

  it('include all metrics that the dashboard and the alerts use', async () => {
    const there = new Set([
      ...read(await stage.metrics()).keys(),
      ...read(await controlPlane()).keys(),
    ]);
    const asked = [...boardExpressions(), ...readAlerts().map(({ expr }) => expr)];
    const missing = asked.flatMap(metricsIn).filter((name) => !there.has(name));
    expect(missing).toEqual([]);
    expect(asked.flatMap(metricsIn).length).toBeGreaterThan(60);
  });

  it('have names and units that follow Prometheus conventions', async () => {
    for (const page of [await stage.metrics(), await controlPlane()]) {
      const types = [...page.matchAll(/^# TYPE (sallyport_\S+) (\S+)$/gm)];
      expect(types.length).toBeGreaterThan(8);
      for (const [, name = '', type] of types) {
        expect(name.endsWith('_total'), name).toBe(type === 'counter');
        expect(name).not.toMatch(/_ms$|_millis|_kb$|_minutes|_count$/);
        expect(page).toMatch(new RegExp(`^# HELP ${name} \\S`, 'm'));
        if (type === 'histogram') expect(name).toMatch(/_seconds$/);
      }
    }
  });

  it('have the same labels after a thousand hostile calls as after one call of each kind', async () => {
    const { bench } = stage;
    const { agent } = bench;
    const host = new URL(bench.url).host;
    const port = Number(new URL(bench.separate.proxyUrl).port);
    const nowhere = `http://127.0.0.1:${await freePort()}/`;
    const hostile = async (word: string) => {
      const mcp = { jsonrpc: '2.0', id: word, method: `x/${word}`, params: { uri: `a:${word}` } };
      await Promise.all([
        bench.pay(5000, { 'action-goal': word, 'x-tenant': word }),
        agent.post(bench.url, `{"${word}":1,"${word.toUpperCase()}":2}`),
        agent.post(`http://${host}/${word}?${word}=1`, { [word]: word }),
        agent.post(stage.crmUrl, mcp),
        stage.callTool(word, { [word]: word }),
        agent.post(nowhere, word, { 'action-passport': word }),
        raw(port, `${word.toUpperCase()} http://${word}.example/ HTTP/1.1\r\nHost: x\r\n\r\n`),
        raw(port, `TRACE http://${word}.example/ HTTP/1.1\r\nHost: ${word}\r\n\r\n`),
      ]);
    };
    await hostile('first');
    const before = read(await stage.metrics());
    for (let round = 0; round < 25; round++) {
      await Promise.all(Array.from({ length: 5 }, (_, i) => hostile(`word${round * 5 + i}`)));
    }
    const after = await stage.metrics();
    expect(after).not.toMatch(/word\d|example/);
    for (const [name, labels] of read(after)) {
      if (!name.startsWith('sallyport_')) continue;
      expect(labels.sort(), name).toEqual(before.get(name)?.sort());
    }
    expect(before.get('sallyport_decisions_total')?.length).toBeLessThan(30);
  }, 60_000);

  it('count a call that waits for a human', async () => {
    const answer = stage.callTool('export_customers', { recipient: 'c' });
    await becomes('sallyport_held_calls', (value) => value === 1);
    await becomes('sallyport_approvals_pending', (value) => value >= 1, controlPlane);
    await answer;
    await becomes('sallyport_held_calls', (value) => value === 0);
  }, 30_000);

  it('report the number and age of unsent records, and no loss, while the control plane is unavailable', async () => {
    const { bench } = stage;
    await becomes('sallyport_spool_records', (value) => value === 0);
    await bench.separate.controlPlane.kill();
    const { headers } = await bench.pay(3);
    const id = /evidence=(\S+)/.exec(headers.get('sallyport-decision') ?? '')?.[1];
    await becomes('sallyport_evidence_upload_failures_total', (value) => value >= 1);
    await becomes('sallyport_spool_oldest_record_age_seconds', (value) => value > 0.5);
    expect(valueIn(await stage.metrics(), 'sallyport_spool_records')).toBeGreaterThan(0);
    expect(valueIn(await stage.metrics(), 'sallyport_spool_bytes')).toBeGreaterThan(0);
    await becomes('sallyport_replica_fresh', (value) => value === 0);
    const refused = await bench.pay(3);
    expect([refused.status, refused.body.reason_code]).toEqual([403, 'policy.update_required']);
    await bench.separate.restartControlPlane();
    await becomes('sallyport_replica_fresh', (value) => value === 1);
    await becomes('sallyport_spool_oldest_record_age_seconds', (value) => value === 0);
    await bench.untilSealed('the call', (events) => events.some((event) => event.id === id));
  }, 60_000);

  it('report at the sidecar and the control plane that Redis is unavailable; the sidecar then refuses calls', async () => {
    const { bench } = stage;
    const pages = [stage.metrics, controlPlane];
    await bench.redis.stop();
    for (const page of pages) await becomes('sallyport_bus_up', (value) => value === 0, page);
    await becomes('sallyport_replica_fresh', (value) => value === 0);
    const refused = await bench.pay(3);
    expect([refused.status, refused.body.reason_code]).toEqual([403, 'policy.update_required']);
  }, 60_000);
});
