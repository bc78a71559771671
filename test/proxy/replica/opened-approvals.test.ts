import { afterEach, beforeEach, expect, it } from 'vitest';
import { OpenedApprovals } from '../../../proxy/replica/opened-approvals.ts';
import { until } from '../../support/base/until.ts';
import { sidecarId } from '../../support/sidecar/published-tenant.ts';
import { pending, type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
  await stage.tenant.publishAll();
});
afterEach(() => stage.end());

it('an opened approval is pending until the bus delivers it; afterwards it has the delivered status', async () => {
  const replica = await stage.open();
  const opened = new OpenedApprovals(replica, sidecarId);
  expect(opened.standing(7)).toBeUndefined();
  opened.add({ id: 7, expiresAtMs: 5 });
  expect(opened.standing(7)).toEqual({ id: 7, expiresAtMs: 5, status: 'pending' });
  expect(opened.standing(8)).toBeUndefined();
  await stage.tenant.publishOwn({ approvals: [{ ...pending, status: 'denied' }] });
  await until(() => opened.standing(7)?.status === 'denied');
});

it('an approval is not reported as pending again after the bus delivered and removed it', async () => {
  const replica = await stage.open();
  const opened = new OpenedApprovals(replica, sidecarId);
  opened.add({ id: 7, expiresAtMs: 5 });
  await stage.tenant.publishOwn({ approvals: [{ ...pending, status: 'denied' }] });
  await until(() => replica.approvalById(7) !== undefined);
  // The control plane's response arrives after the bus has already delivered the approval.
  opened.add({ id: 7, expiresAtMs: 5 });
  await stage.tenant.publishOwn({ approvals: [] });
  await until(() => replica.approvalById(7) === undefined);
  expect(opened.standing(7)).toBeUndefined();
});

it('at most the last thousand opened approvals are remembered', async () => {
  const opened = new OpenedApprovals(await stage.open(), sidecarId);
  for (let id = 1; id <= 1_001; id++) opened.add({ id, expiresAtMs: 5 });
  expect(opened.standing(1)).toBeUndefined();
  expect(opened.standing(2)?.status).toBe('pending');
  expect(opened.standing(1_001)?.status).toBe('pending');
});
