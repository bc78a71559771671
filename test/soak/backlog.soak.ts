import fs from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { enrol } from '../../proxy/control-plane/enrolment.ts';
import { decisionRecord } from '../../proxy/records/call-records.ts';
import { Spool } from '../../proxy/spool/spool.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { silentLog } from '../../shared/base/log.ts';
import type { Verdict } from '../../shared/vocabulary/verdict.ts';
import { until } from '../support/programs/processes.ts';
import { startFaultBench } from '../support/system/fault-bench.ts';

const backlog = 200_000;
const growthBytesMax = 96 * 1024 ** 2;

it('200,000 records that waited for the control plane are sealed in order with bounded memory, while calls continue', async () => {
  const bench = await startFaultBench({ SALLYPORT_LOG_LEVEL: 'error' });
  const { separate } = bench;
  try {
    await separate.sidecar.stop();
    const written = await writeBacklog(join(separate.dataDir, 'sidecar'));
    const begun = performance.now();
    await separate.restartSidecar();
    const startMs = performance.now() - begun;
    const atStart = rssBytes(separate.sidecar.pid);
    let most = atStart;
    let calls = 0;
    await until(
      'the spool is empty',
      async () => {
        most = Math.max(most, rssBytes(separate.sidecar.pid));
        if ((await bench.pay(1)).status === 200) calls += 1;
        const text = await (await fetch(`${separate.adminUrl}/metrics`)).text();
        return Number(/^sallyport_spool_records (\d+)$/m.exec(text)?.[1]) < 5;
      },
      12 * 60_000,
    );
    const seconds = (performance.now() - begun) / 1000;
    const sealed = (await bench.events('&tool=backlog.tool')).map(({ id }) => id);
    process.stdout.write(
      `backlog: ${JSON.stringify({
        records: sealed.length,
        startMs: Math.round(startMs),
        seconds: Math.round(seconds),
        perSecond: Math.round(backlog / seconds),
        cpuSeconds: cpuSeconds(separate.sidecar.pid),
        rssAtStartMiB: mebibytes(atStart),
        rssMostMiB: mebibytes(most),
        callsMeanwhile: calls,
      })}\n`,
    );
    expect(sealed.length).toBe(backlog);
    expect(sealed.every((id, index) => id === written[index])).toBe(true);
    expect(calls).toBeGreaterThan(0);
    expect(most - atStart).toBeLessThan(growthBytesMax);
    expect((await separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
  } finally {
    await bench.close();
  }
});

/** Writes records to the spool, as the sidecar would do while the control plane is unavailable. */
async function writeBacklog(dataDir: string): Promise<readonly string[]> {
  const enrolment = { dataDir, controlPlaneUrl: '', token: undefined, version: 'test' };
  const { identity } = await enrol(enrolment);
  const spool = Spool.open({ folder: join(dataDir, 'spool'), log: silentLog, fsync: false });
  const ids: string[] = [];
  const facts = { tool: 'backlog.tool', resource: 'r:1', host: 'h', method: 'POST' };
  const action = { ...identity, tool: 'backlog.tool', resource: 'r:1', args: { amount: 1 } };
  for (let n = 0; n < backlog; n += 1000) {
    const records = Array.from({ length: 1000 }, () =>
      decisionRecord(
        { action, verdict, facts, usageRun: 'run_1' },
        { identity, clock: systemClock },
      ),
    );
    await Promise.all(records.map((record) => spool.append(record)));
    ids.push(...records.map(({ event }) => event.id));
  }
  await spool.close();
  return ids;
}

const verdict: Verdict = {
  decision: 'allow',
  reasonCode: 'backlog.allow',
  summary: '',
  mode: 'enforce',
  enforced: true,
  matchedRules: ['backlog/all'],
  observed: [],
  riskTier: 'low',
  nextSteps: [],
  effects: [],
};

function rssBytes(pid: number): number {
  const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

function cpuSeconds(pid: number): number {
  const [, rest = ''] = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = rest.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const mebibytes = (bytes: number) => Math.round(bytes / 1024 ** 2);
