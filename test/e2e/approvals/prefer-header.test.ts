import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

const gated = {
  id: 'gated',
  version: 1,
  rules: [
    {
      name: 'large',
      decision: 'require_approval',
      reason: 'pay.large',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'bank.pay' },
          { path: 'args.amount', operator: '>', value: 1000 },
        ],
      },
    },
  ],
};

describe('a call with a Prefer header', () => {
  let bench: FaultBench;
  beforeAll(async () => {
    bench = await startFaultBench({ SALLYPORT_HOLD_MS: '0', SALLYPORT_HOLD_MS_MAX: '30000' });
    const { api } = bench.separate;
    await api('POST', '/v1/policies', { name: 'gated', publish: true, rules_json: gated });
    await until('the gate is active', async () => (await bench.pay(1000.5)).status === 202);
  }, 300_000);
  afterAll(() => bench?.close());

  async function approve(amount: number): Promise<void> {
    const { api } = bench.separate;
    let id = 0;
    await until(`an approval of ${amount} waits`, async () => {
      const { body } = await api('GET', '/v1/approvals?status=pending');
      const open = body.approvals as { readonly id: number }[];
      id = open.find((one) => JSON.stringify(one).includes(`"amount":${amount}`))?.id ?? 0;
      return id > 0;
    });
    await api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
  }

  it('is held for longer than the default hold, and performed when it is approved', async () => {
    const answer = bench.pay(2001, { prefer: 'wait=25' });
    await approve(2001);
    const { status, headers } = await answer;
    expect(status).toBe(200);
    expect(headers.get('preference-applied')).toBe('wait=25');
    expect(bench.upstream.seen.at(-1)?.headers).not.toHaveProperty('prefer');
  });

  it('is held for at most SALLYPORT_HOLD_MS_MAX, and the response states the applied wait time', async () => {
    const answer = bench.pay(2002, { prefer: 'respond-async, wait="3600"; x=1' });
    await approve(2002);
    expect((await answer).headers.get('preference-applied')).toBe('wait=30');
  });

  it.each([
    ['wait=0', 'wait=0'],
    ['Wait = 0', 'wait=0'],
    ['wait=0, wait=20', 'wait=0'],
  ])('is answered at once if the header is %s', async (prefer, applied) => {
    const { status, headers, body } = await bench.pay(2003, { prefer });
    expect(status).toBe(202);
    expect(headers.get('preference-applied')).toBe(applied);
    expect(body.reason_code).toBe('approval.pending');
  });

  it.each([
    'wait',
    'wait=soon',
    'wait=-1',
    'wait=1e9',
    'await=9',
    'respond-async',
    'wait=1234567890',
  ])(
    'is held for the default time if the header is %s, which is not a valid wait',
    async (prefer) => {
      const { status, headers } = await bench.pay(2004, { prefer });
      expect(status).toBe(202);
      expect(headers.get('preference-applied')).toBeNull();
    },
  );
});
