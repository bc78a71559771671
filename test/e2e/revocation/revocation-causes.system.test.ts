import { afterAll, beforeAll, expect, it } from 'vitest';
import { startProgram, until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

let bench: FaultBench;
beforeAll(async () => {
  bench = await startFaultBench();
}, 90_000);
afterAll(() => bench?.close());

async function readiness() {
  const answer = await fetch(`${bench.separate.adminUrl}/readyz`);
  return { status: answer.status, body: (await answer.json()) as { reasons: string[] } };
}

async function run(args: readonly string[]) {
  const { origin, ownerKey, proxyUrl, adminUrl } = bench.separate;
  const env = {
    SALLYPORT_CONTROL_PLANE_URL: origin,
    SALLYPORT_API_KEY: ownerKey,
    SALLYPORT_PROXY_PORT: new URL(proxyUrl).port,
    SALLYPORT_PROXY_ADMIN_PORT: new URL(adminUrl).port,
  };
  const program = startProgram('cli/main.ts', env, { args });
  return { code: await program.exited(), text: program.output() };
}

function warnings(cause: string): readonly string[] {
  const lines = bench.separate.sidecar.output().split('\n');
  return lines.filter((line) => line.includes(`${cause}: `));
}

async function setAgent(disabled: boolean): Promise<void> {
  const { api, agentId } = bench.separate;
  expect((await api('PATCH', `/v1/agents/${agentId}`, { disabled })).status).toBe(200);
}

it('a disabled agent is named as the cause in the log, readiness, refusals, the sidecar list and `sallyport run`', async () => {
  const { agentId, api } = bench.separate;
  await setAgent(true);
  const isNamed = async () => (await bench.pay(1)).body.reason_code === 'agent.disabled';
  await until('the sidecar knows', isNamed);
  const refused = await bench.pay(1);
  expect(refused.body).toMatchObject({
    decision: 'deny',
    reason_code: 'agent.disabled',
    next_steps: [expect.stringContaining('Stop'), expect.any(String)],
  });
  expect(await readiness()).toMatchObject({
    status: 503,
    body: {
      ready: false,
      code: 'agent.disabled',
      reasons: [
        `agent.disabled: agent ${agentId} is disabled, so every call is denied; enable it with PATCH /v1/agents/${agentId} and {"disabled": false}.`,
      ],
    },
  });
  // The log line is not repeated when another agent is disabled.
  const other = await api('POST', '/v1/agents/register', { name: 'other', capabilities: [] });
  await api('PATCH', `/v1/agents/${other.body.agent_id}`, { disabled: true });
  const listed = await run(['sidecars', 'list']);
  expect(listed.text).toContain(`${agentId} (disabled)`);
  const started = await run(['run', '--', 'true']);
  expect([started.code === 0, started.text]).toEqual([
    false,
    expect.stringContaining('denies every call. agent.disabled:'),
  ]);
  expect(warnings('agent.disabled')).toHaveLength(1);
  await setAgent(false);
  await until('it is ready again', async () => (await readiness()).status === 200);
  await until('the log says so', () =>
    bench.separate.sidecar.output().includes('calls of the agent are decided again'),
  );
  expect((await run(['sidecars', 'list'])).text).not.toContain('(disabled)');
});

it('a revoked sidecar is named as the cause, even after its restart', async () => {
  const { api } = bench.separate;
  const { body } = await api('GET', '/v1/sidecars');
  const [sidecar] = body.sidecars as readonly { readonly id: string }[];
  await api('DELETE', `/v1/sidecars/${sidecar?.id}`);
  const isStated = async () =>
    JSON.stringify((await readiness()).body).includes('"code":"sidecar.revoked"');
  await until('readiness names it', isStated);
  const refused = await bench.pay(1);
  expect(refused.body).toMatchObject({
    reason_code: 'sidecar.revoked',
    next_steps: [expect.stringContaining('Stop'), expect.any(String)],
  });
  await until('it is logged', () => warnings('sidecar.revoked').length === 1);
  expect((await run(['sidecars', 'list'])).text).toMatch(/ revoked /);
  await bench.separate.sidecar.kill();
  await bench.separate.restartSidecar({ ready: false });
  await until('readiness names it again', () => isStated().catch(() => false));
  await until('it is logged again', () => warnings('sidecar.revoked').length === 1);
});
