import { describe, expect, it } from 'vitest';
import { firstPassportFailure, passportFailures } from '../../../shared/passport/check.ts';
import type { CheckVector } from '../../support/policy/passport-vectors.ts';
import { baseAction, nowMs, signedPassport } from '../fixtures.ts';
import { loadVectors } from '../load-vectors.ts';

describe('checking a passport', () => {
  it.each(loadVectors<CheckVector>('passport/checks.yaml'))(
    'has the expected result: $name',
    (vector) => {
      const passport = signedPassport(vector.claims, vector.passport);
      const target = {
        tenantId: 'acme',
        audience: 'gateway://agents',
        nowMs: nowMs + (vector.at ?? 0) * 1000,
        action: { ...baseAction, ...vector.action },
        capabilities: vector.capabilities,
      };
      const failures = passportFailures(passport, target);
      expect(failures.map(({ check, reason_code }) => ({ check, reason_code }))).toEqual(
        vector.fails,
      );
      expect(firstPassportFailure(passport, target)).toEqual(failures[0]);
      for (const { message } of failures) expect(message).toMatch(/\.$/);
    },
  );

  it('reports the capabilities of the agent as the cause if they do not cover the tool', () => {
    const passport = signedPassport({ allowed_tools: ['payments.*'] });
    const action = { ...baseAction, tool: 'mcp.crm.lookup' };
    const target = { tenantId: 'acme', audience: 'gateway://agents', nowMs, action };
    const messageWith = (capabilities: readonly string[]) =>
      firstPassportFailure(passport, { ...target, capabilities })?.message;
    expect(messageWith(['payments.*'])).toBe(
      "The agent's capabilities (payments.*) do not cover mcp.crm.lookup.",
    );
    expect(messageWith(['**'])).toBe('The passport covers payments.*, not mcp.crm.lookup.');
  });

  it('checks only the passport itself if no action is given', () => {
    const passport = signedPassport({
      sub: '99',
      allowed_tools: [],
      resource_constraints: { max_amount: 0 },
    });
    expect(passportFailures(passport, { tenantId: 'acme', nowMs })).toEqual([]);
  });

  it.each([
    ['malformed', 'form', 'passport.malformed'],
    ['signature_invalid', 'signature', 'passport.signature_invalid'],
  ] as const)(
    'reports exactly one failed check if the passport is %s',
    (form, check, reason_code) => {
      const failures = passportFailures({ form, detail: 'x' }, { tenantId: 'acme', nowMs });
      expect(failures).toMatchObject([{ check, reason_code }]);
    },
  );

  it('reports an out-of-range time in a passport without throwing an exception', () => {
    const passport = signedPassport({ exp: Number.MAX_SAFE_INTEGER, nbf: Number.MAX_SAFE_INTEGER });
    expect(passportFailures(passport, { tenantId: 'acme', nowMs })).toMatchObject([
      { reason_code: 'passport.not_yet_valid' },
    ]);
  });
});
