import fs from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { jwksPath } from '../../support/control-plane/oidc-issuer.ts';
import { type Program, until } from '../../support/programs/processes.ts';
import { type Pod, type PodStage, startPodStage } from '../../support/system/pod-stage.ts';

const withinMs = 90_000;

let stage: PodStage;
beforeAll(async () => {
  stage = await startPodStage();
});
afterAll(() => stage.close());

const logs = (program: Program, text: string) =>
  until(`the sidecar logs ${text}`, () => program.output().includes(text), withinMs);
const ready = (pod: Pod) => until('the sidecar is ready', pod.isReady, withinMs);
const ofPod = async (uid: string) =>
  (await stage.sidecars()).filter(({ workload }) => workload?.pod_uid === uid);
const liveOf = async (uid: string) =>
  (await ofPod(uid)).filter(({ revoked_for }) => revoked_for === undefined);

describe('the sidecar of a pod', () => {
  let agentId: string;
  let first: Pod;
  let program: Program;

  it('waits for its token, the control plane and a rule, with the reason of each, and then becomes ready', async () => {
    first = await stage.pod('first');
    program = first.start();
    await logs(program, 'workload.token_unreadable');
    await first.renewToken({ exp: Math.floor(Date.now() / 1000) - 60 });
    await logs(program, 'upstream.unreachable');
    await stage.startControlPlane();
    await logs(program, 'workload.token_expired');
    await first.renewToken();
    await logs(program, 'workload.rule_missing');
    expect(await first.isReady()).toBe(false);
    agentId = await stage.agent('refunds');
    await stage.rule(agentId);
    await ready(first);
    expect(await liveOf('first')).toMatchObject([{ agent_id: agentId }]);
    expect(program.output()).not.toMatch(/eyJ/);
  });

  it('keeps its identity when its container restarts with its data directory', async () => {
    const [before] = await liveOf('first');
    await program.kill();
    program = first.start();
    await ready(first);
    expect((await liveOf('first')).map(({ id }) => id)).toEqual([before?.id]);
  });

  it('gets a new identity, which replaces the former one, when its container restarts without its data directory', async () => {
    const [before] = await liveOf('first');
    await program.kill();
    fs.rmSync(first.dataDir, { recursive: true });
    program = first.start();
    await ready(first);
    const [after, ...more] = await liveOf('first');
    expect(more).toEqual([]);
    expect(after?.id).not.toBe(before?.id);
    const former = (await ofPod('first')).find(({ id }) => id === before?.id);
    expect(former).toMatchObject({ revoked_for: 'replaced' });
  });

  it('enrols again as another agent, without a restart, when its rule changes', async () => {
    const other = await stage.agent('other');
    await first.renewToken();
    const answer = await stage.rule(other);
    expect(answer).toMatchObject({ revoked_sidecars: 1 });
    await logs(program, 'the sidecar was revoked and enrols again');
    await until(
      'the sidecar acts for the other agent',
      async () => (await liveOf('first'))[0]?.agent_id === other,
      withinMs,
    );
    await ready(first);
    expect(await program.stop()).toBe(0);
  });

  it('is not enrolled again after an operator revoked it, and ends at once on SIGTERM', async () => {
    const pod = await stage.pod('stopped');
    await pod.renewToken();
    const running = pod.start();
    await ready(pod);
    const [record] = await liveOf('stopped');
    await stage.api('DELETE', `/v1/sidecars/${record?.id}`);
    await logs(running, 'workload.pod_revoked');
    expect(await pod.isReady()).toBe(false);
    expect(await liveOf('stopped')).toEqual([]);
    expect(await running.stop()).toBe(0);
  });

  it('is enrolled only once if the control plane is killed during its enrolment', async () => {
    await stage.controlPlane?.kill();
    await stage.startControlPlane();
    let isAsked = false;
    stage.issuer.behave(jwksPath, () => {
      isAsked = true;
    });
    const pod = await stage.pod('interrupted');
    await pod.renewToken();
    const running = pod.start();
    await until('the enrolment is under way', () => isAsked, withinMs);
    await stage.controlPlane?.kill();
    stage.issuer.behave(jwksPath, undefined);
    await logs(running, '"reason_code":"upstream.unreachable"');
    await stage.startControlPlane();
    await ready(pod);
    expect(await ofPod('interrupted')).toHaveLength(1);
    await running.kill();
  });
});
