import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Services } from '../../../../control-plane/core/services.ts';
import { pauser, runWithPauses } from '../../../../control-plane/platform/scheduling/pauser.ts';
import { lintCandidates } from '../../../../control-plane/policies/lint-policies.ts';
import { trialPolicies } from '../../../../control-plane/trials/trial-policies.ts';
import type { Steps } from '../../../../shared/base/steps.ts';
import { parseStrictJsonInSteps } from '../../../../shared/base/strict-json.ts';
import { compileInSteps } from '../../../../shared/policy/engine/compile.ts';
import { manualClock } from '../../../support/base/manual-clock.ts';

const count = 20;
const candidates = Array.from({ length: count }, (_, at) => ({
  id: `policy-${at}`,
  version: 1,
  rules: [
    {
      name: 'amount',
      decision: 'deny',
      reason: 'test.rule',
      when: { all: [{ path: 'args.amount', operator: '>', value: at }] },
    },
  ],
}));

/** Returns a clock that advances by a time slice at every reading, so that each pause yields once. */
function hurriedClock() {
  let ms = 0;
  return {
    monotonic: () => {
      ms += 10;
      return ms;
    },
  };
}

/** Returns the result of the work, and how often the event loop ran other work in the meantime. */
async function turnsDuring<Result>(work: () => Promise<Result>): Promise<[Result, number]> {
  let turns = 0;
  let next = setImmediate(function tick() {
    turns += 1;
    next = setImmediate(tick);
  });
  try {
    return [await work(), turns];
  } finally {
    clearImmediate(next);
  }
}

function keepBusy(ms: number): void {
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt);
}

describe('the pauser of long work', () => {
  it('yields to the event loop at the end of a time slice, and then begins a new slice', async () => {
    const clock = manualClock();
    const pause = pauser(clock);
    expect(pause()).toBeUndefined();
    clock.advance(10);
    const [, turns] = await turnsDuring(async () => pause());
    expect(turns).toBeGreaterThan(0);
    expect(pause()).toBeUndefined();
  });

  it('runs timers between two steps, even if a socket event started the work', async () => {
    const seen: string[] = [];
    function* work(): Steps<void> {
      keepBusy(15);
      seen.push('first step');
      yield;
      seen.push('second step');
    }
    const server = net.createServer((socket) => {
      socket.on('error', () => {}).end('x');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as net.AddressInfo;
    const client = net.connect(port, '127.0.0.1');
    await new Promise<void>((resolve, reject) => {
      client.once('data', () => {
        setTimeout(() => seen.push('timer'), 1);
        runWithPauses(work(), pauser()).then(resolve, reject);
      });
    });
    client.destroy();
    server.close();
    expect(seen).toEqual(['first step', 'timer', 'second step']);
  });
});

describe('long work', () => {
  it('yields after each rule that is evaluated', async () => {
    const services = {} as Pick<Services, 'db' | 'guard'>;
    const [policies, turns] = await turnsDuring(() =>
      trialPolicies(services, 'default', {
        trial: { candidates, beside: false },
        pause: pauser(hurriedClock()),
      }),
    );
    expect(policies).toHaveLength(count);
    expect(turns).toBeGreaterThanOrEqual(count);
    const [set, compiling] = await turnsDuring(() =>
      runWithPauses(compileInSteps(policies), pauser(hurriedClock())),
    );
    expect(set.size).toBe(count);
    expect(compiling).toBeGreaterThanOrEqual(count);
  });

  it('yields after each rule that is linted', async () => {
    const services = { clock: hurriedClock() } as Services;
    const caller = { tenantId: 'default' } as Parameters<typeof lintCandidates>[1];
    const [, turns] = await turnsDuring(() =>
      lintCandidates(services, caller, { policies: candidates, with_published: false }),
    );
    expect(turns).toBeGreaterThanOrEqual(2 * count);
  });

  it('yields between the passes over a JSON body', async () => {
    const body = Buffer.from(JSON.stringify(candidates));
    const [value, turns] = await turnsDuring(() =>
      runWithPauses(parseStrictJsonInSteps(body), pauser(hurriedClock())),
    );
    expect(value).toEqual(candidates);
    expect(turns).toBeGreaterThanOrEqual(3);
  });
});
