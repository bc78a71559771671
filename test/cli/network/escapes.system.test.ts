import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { escapeAttempts } from '../../support/network/escape-attempts.ts';
import { escapeScenarios } from '../../support/network/escape-scenarios.ts';
import { type Lab, openLab } from '../../support/network/lab.ts';
import { runIn } from '../../support/network/namespaces.ts';

let lab: Lab;

beforeAll(async () => {
  lab = await openLab();
  await lab.startSidecar();
});

afterAll(() => lab.close());

async function attempt({ program: [name, ...args], agent }: (typeof escapeAttempts)[number]) {
  const observed = await (await lab.startAgent(name, args, agent)).act();
  return { observed, left: await lab.arrived() };
}

describe('without the rules', () => {
  it.each(escapeAttempts)('$title leaves the pod: $leavesWithoutRules', async (one) => {
    const { left } = await attempt(one);
    expect(left.length > 0).toBe(one.leavesWithoutRules);
  });
});

describe.each(['nftables', 'iptables', 'iptables-legacy'] as const)(
  'with the rules of %s',
  (backend) => {
    async function apply(...args: readonly string[]): Promise<void> {
      const name = backend === 'nftables' ? 'nftables' : 'iptables';
      const isLegacy = backend === 'iptables-legacy';
      expect(await lab.network(['apply', '--backend', name, ...args], { isLegacy })).toMatchObject({
        code: 0,
      });
    }

    async function remove(): Promise<void> {
      for (const isLegacy of [false, true]) {
        expect(await lab.network(['remove'], { isLegacy })).toMatchObject({ code: 0 });
      }
    }

    describe('at any time', () => {
      beforeAll(async () => {
        await apply();
        await lab.arrived();
      });

      afterAll(remove);

      it.each(escapeAttempts)('$title does not leave the pod: $observed', async (one) => {
        expect(await attempt(one)).toEqual({ observed: one.observed, left: [] });
      });
    });

    it.each(escapeScenarios)(
      '$title: does not leave the pod: $observed',
      async ({ play, observed }) => {
        try {
          expect(await play(lab, apply)).toBe(observed);
          expect(await lab.arrived()).toEqual([]);
        } finally {
          await remove();
          await runIn(lab.namespaces.pod, ['nft', 'delete', 'table', 'inet', 'other']);
          await lab.stopOthers();
        }
      },
    );
  },
);
