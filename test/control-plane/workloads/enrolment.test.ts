import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { collectPods } from '../../../control-plane/workloads/collect-pods.ts';
import { connectControlPlane } from '../../../proxy/control-plane/client.ts';
import { registerAgent, updateAgent } from '../../../shared/contract/agents.ts';
import {
  createEnrolmentToken,
  listSidecars,
  revokeSidecar,
} from '../../../shared/contract/sidecars.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { podKeys, startWorkloadStage, type WorkloadStage } from './stage.ts';

let stage: WorkloadStage;
beforeAll(async () => {
  stage = await startWorkloadStage();
});
afterAll(() => stage.close());

let pods = 0;
let pod: { name: string; uid: string };
beforeEach(async () => {
  pods += 1;
  pod = { name: `pod-${pods}`, uid: `uid-${pods}` };
  await stage.put('refunds');
});

/** Returns a workload token of the test's pod. */
const token = (more: object = {}) =>
  stage.issuer.token({
    'kubernetes.io': {
      namespace: 'billing',
      serviceaccount: { name: 'refund-agent', uid: 'a1' },
      pod,
      ...more,
    },
  });
const enrol = async (keys?: Awaited<ReturnType<typeof podKeys>>) =>
  stage.enrol(await token(), {}, keys);
const sidecar = async (id: string) => {
  const { sidecars } = await stage.gateway.owner.call(listSidecars);
  return sidecars.find((one) => one.id === id);
};
const events = async (type: string, id: string) =>
  (await eventsOf(stage.gateway.services, 'default')).filter(
    (event) => event.type === type && event.data.sidecar_id === id,
  );

describe('a sidecar that enrols with a workload token', () => {
  it('acts for the agent, user and environment of the rule, and is listed with its pod', async () => {
    const { sidecar_id: id, ...enrolled } = await enrol();
    expect(enrolled).toMatchObject({
      tenant_id: 'default',
      agent_id: stage.agentId,
      user_id: 'user-1',
      environment: 'prod',
    });
    expect(await sidecar(id)).toMatchObject({
      workload: {
        rule: 'refunds',
        issuer: stage.issuer.issuer,
        namespace: 'billing',
        service_account: 'refund-agent',
        pod_name: pod.name,
        pod_uid: pod.uid,
      },
    });
    const [event] = await events('sidecar.enrolled', id);
    expect(event?.data).toMatchObject({ rule: 'refunds', rule_by: 'owner', pod_uid: pod.uid });
  });

  it('remains the same sidecar if the request is repeated with the same keys', async () => {
    const keys = await podKeys();
    const first = await enrol(keys);
    expect((await enrol(keys)).sidecar_id).toBe(first.sidecar_id);
    expect(await events('sidecar.enrolled', first.sidecar_id)).toHaveLength(1);
  });

  it('replaces the earlier sidecar of its pod if it has other keys; the ledger records the replacement', async () => {
    const first = await enrol();
    const second = await enrol();
    expect(second.sidecar_id).not.toBe(first.sidecar_id);
    expect(await sidecar(first.sidecar_id)).toMatchObject({ revoked_for: 'replaced' });
    expect((await sidecar(second.sidecar_id))?.revoked_at).toBeUndefined();
    const [revoked] = await events('sidecar.revoked', first.sidecar_id);
    expect(revoked?.data).toMatchObject({ reason: 'replaced', by: `pod:${pod.uid}` });
    const [enrolled] = await events('sidecar.enrolled', second.sidecar_id);
    expect(enrolled?.data).toMatchObject({ replaces: first.sidecar_id });
  });

  it('is the only unrevoked sidecar of its pod, even if several enrol concurrently', async () => {
    const results = await Promise.allSettled(Array.from({ length: 6 }, () => enrol()));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(6);
    const live = await stage.gateway.services.db.sidecar.count({
      where: { podUid: pod.uid, revokedAt: null },
    });
    expect(live).toBe(1);
  });

  it('is refused after an operator revoked the sidecar of its pod; other pods can still enrol', async () => {
    const { sidecar_id: id } = await enrol();
    await stage.gateway.owner.call(revokeSidecar, { params: { id } });
    expect((await refusalOf(enrol())).code).toBe('workload.pod_revoked');
    pod = { ...pod, uid: `${pod.uid}-next` };
    expect(await enrol()).toHaveProperty('sidecar_id');
  });

  it('is revoked when its rule is removed, and cannot enrol again', async () => {
    const { sidecar_id: id } = await enrol();
    expect(await stage.remove('refunds')).toBeGreaterThan(0);
    expect(await sidecar(id)).toMatchObject({ revoked_for: 'rule' });
    const error = await refusalOf(enrol());
    expect(error.code).toBe('workload.rule_missing');
    expect(error.message).toContain('billing/refund-agent');
  });

  it('is refused while the agent of its rule is disabled', async () => {
    const id = Number(stage.agentId);
    const { owner } = stage.gateway;
    await owner.call(updateAgent, { params: { id }, body: { disabled: true } });
    expect((await refusalOf(enrol())).code).toBe('agent.disabled');
    await owner.call(updateAgent, { params: { id }, body: { disabled: false } });
    expect(await enrol()).toHaveProperty('sidecar_id');
  });

  it('is refused if the agent of its rule no longer exists', async () => {
    const agent_id = await stage.gateway.agent('short-lived');
    await stage.put('refunds', { agent_id });
    await stage.gateway.services.pool.query('delete from agent where id = $1', [agent_id]);
    expect((await refusalOf(enrol())).code).toBe('agent.not_found');
  });

  it('is refused if an admin wrote its rule and the rule’s user has since become an owner', async () => {
    const admin = await stage.gateway.as({ role: 'admin', principal: 'adam' });
    await stage.put('refunds', { user_id: 'olga' }, admin);
    expect(await enrol()).toMatchObject({ user_id: 'olga' });
    await stage.gateway.api.key({ role: 'owner', principal: 'olga' });
    expect((await refusalOf(enrol())).code).toBe('sidecar.grant_exceeds_own');
    await stage.put('refunds', { user_id: 'olga' });
    expect(await enrol()).toMatchObject({ user_id: 'olga' });
  });

  it('enrols in the tenant that the request names, and only by a rule of this tenant', async () => {
    const other = { tenant_id: 'other' };
    const refused = await refusalOf(stage.enrol(await token(), other));
    expect(refused.code).toBe('workload.rule_missing');
    expect((await refusalOf(stage.enrol(await token(), { tenant_id: 'nobody' }))).code).toBe(
      'workload.rule_missing',
    );
    const stranger = await stage.gateway.as({ tenantId: 'other', principal: 'mallory' });
    const body = { name: 'theirs', capabilities: [] };
    const { agent_id } = await stranger.call(registerAgent, { body });
    await stage.put('theirs', { agent_id: String(agent_id) }, stranger);
    expect(await enrol()).toMatchObject({ tenant_id: 'default', agent_id: stage.agentId });
    expect(await stage.enrol(await token(), other)).toMatchObject({
      tenant_id: 'other',
      agent_id: String(agent_id),
    });
  });
});

describe('the sidecar of a pod', () => {
  it('is revoked when it has not reported for the configured time, and its row is deleted later', async () => {
    const { gateway } = stage;
    const { services } = gateway;
    const { sidecar_id: silent } = await enrol();
    pod = { ...pod, uid: `${pod.uid}-alive` };
    const keys = await podKeys();
    const alive = await enrol(keys);
    const fromToken = await enrolledSidecar(gateway, stage.agentId);
    services.clock.advance(23 * 3_600_000);
    const identity = {
      sidecarId: alive.sidecar_id,
      tenantId: 'default',
      agentId: alive.agent_id,
      userId: alive.user_id,
      environment: alive.environment,
    };
    const enrolment = { identity, signingKey: keys.signing, sectionKeys: [] } as never;
    const { clock } = services;
    const url = gateway.api.origin;
    await connectControlPlane({ url, enrolment, clock }).report({
      versions: {},
      age_ms: 1,
      spool_depth: 0,
      spool_written: 0,
      version: 'test',
    });
    await collectPods(services, 'default');
    expect((await sidecar(silent))?.revoked_at).toBeUndefined();
    services.clock.advance(3_600_001);
    await collectPods(services, 'default');
    expect(await sidecar(silent)).toMatchObject({ revoked_for: 'unseen' });
    const [event] = await events('sidecar.revoked', silent);
    expect(event?.data).toMatchObject({ reason: 'unseen', by: 'control-plane' });
    expect((await sidecar(alive.sidecar_id))?.revoked_at).toBeUndefined();
    services.clock.advance(49 * 3_600_000);
    await collectPods(services, 'default');
    expect(await sidecar(silent)).toBeUndefined();
    expect(await sidecar(alive.sidecar_id)).toMatchObject({ revoked_for: 'unseen' });
    // The sidecar with a one-time token has no pod, so it is not revoked although it never reported.
    expect((await sidecar(fromToken.id))?.revoked_at).toBeUndefined();
    expect(await enrol(keys)).toHaveProperty('sidecar_id');
  });

  it('stays refused after an operator revoked it, because the clean-up of old rows keeps its row', async () => {
    const { services, owner } = stage.gateway;
    const { sidecar_id: id } = await enrol();
    await owner.call(revokeSidecar, { params: { id } });
    services.clock.advance(100 * 3_600_000);
    await collectPods(services, 'default');
    expect(await sidecar(id)).toMatchObject({ revoked_for: 'operator' });
    expect((await refusalOf(enrol())).code).toBe('workload.pod_revoked');
  });

  it('cannot enrol with a one-time enrolment token in place of a workload token', async () => {
    const body = { agent_id: stage.agentId, user_id: 'user-1' };
    const made = await stage.gateway.owner.call(createEnrolmentToken, { body });
    expect((await refusalOf(stage.enrol(made.token))).code).toBe('workload.token_malformed');
  });
});
