import fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { answersOk, until } from '../../support/programs/processes.ts';
import { type SmallDisk, smallDisk } from '../../support/programs/small-disk.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

let disk: SmallDisk;
let bench: FaultBench;
beforeAll(async () => {
  disk = smallDisk();
  const sidecarDir = join(disk.folder, 'sidecar');
  bench = await startFaultBench({ SALLYPORT_LOG_LEVEL: 'warn' }, undefined, { sidecarDir });
}, 60_000);
afterAll(async () => {
  await bench?.close();
  disk?.close();
});

it('a sidecar on a full disk denies every call, logs the cause, and recovers when there is space again', async () => {
  const { separate, upstream } = bench;
  const snapshot = join(disk.folder, 'sidecar', 'snapshot.json');
  // Without the control plane, no record is acknowledged. Acknowledgements would free space on the disk.
  await separate.controlPlane.kill();
  const before = fs.readFileSync(snapshot, 'utf8');
  disk.fill();
  await until(
    'the disk is full for the spool',
    async () => (await bench.pay(1)).body.reason_code === 'evidence.seal_failed',
  );
  const performed = upstream.seen.length;
  const answers = await Promise.all(Array.from({ length: 20 }, () => bench.pay(1)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 403));
  expect(answers.map(({ body }) => body.reason_code)).toEqual(
    answers.map(() => 'evidence.seal_failed'),
  );
  expect(upstream.seen).toHaveLength(performed);
  expect(await answersOk(`${separate.adminUrl}/healthz`)).toBe(true);
  await until('it says so', () =>
    separate.sidecar.output().includes('the evidence spool could not be written'),
  );

  const free = /^sallyport_spool_free_bytes (\d+)$/m;
  const metrics = await (await fetch(`${separate.adminUrl}/metrics`)).text();
  expect(Number(free.exec(metrics)?.[1])).toBeLessThan(65_536);
  await until('the log warns', () =>
    separate.sidecar.output().includes('less than 10 % of the disk is free'),
  );

  // Sections published in the meantime cannot be stored on disk; the stored ones remain intact.
  await separate.restartControlPlane();
  await separate.api('POST', '/v1/policies', { name: 'more', publish: true, rules_json: noRules });
  await until('the new policy is held', () => heldPolicies(separate.adminUrl));
  expect(JSON.parse(fs.readFileSync(snapshot, 'utf8'))).toHaveProperty('sections');
  expect(Object.keys(JSON.parse(before))).toContain('sections');

  await until('readiness names the disk', async () => {
    const answer = await fetch(`${separate.adminUrl}/readyz`);
    return answer.status === 503 && (await answer.text()).includes('data directory');
  });

  disk.free();
  await until('it is ready again', () => answersOk(`${separate.adminUrl}/readyz`));
  await until('calls go on', async () => (await bench.pay(1)).status === 200);
  await bench.untilSealed('every call that was performed', (events) => {
    const allowed = events.filter(
      ({ type, decision }) => type === 'decision' && decision === 'allow',
    );
    return allowed.length === upstream.seen.length;
  });
  expect((await separate.api('GET', '/v1/evidence/verify')).body.ok).toBe(true);
  await separate.sidecar.kill();
  await separate.restartSidecar();
  await until('calls go on', async () => (await bench.pay(1)).status === 200);
});

async function heldPolicies(adminUrl: string): Promise<boolean> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const version = /sallyport_replica_section_version\{section="policies"\} (\d+)/.exec(text)?.[1];
  return Number(version) >= 2;
}

const noRules = {
  id: 'more',
  version: 1,
  rules: [
    {
      name: 'none',
      decision: 'deny',
      reason: 'never',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'nothing.such' }] },
    },
  ],
};
