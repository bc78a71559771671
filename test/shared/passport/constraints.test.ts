import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { firstPassportFailure } from '../../../shared/passport/check.ts';
import { argsDigest } from '../../../shared/passport/constraints.ts';
import { externalRecipient } from '../../../shared/passport/recipients.ts';
import { processorMs } from '../../support/base/processor-time.ts';
import { baseAction, nowMs, signedPassport } from '../fixtures.ts';
import { loadVectors } from '../load-vectors.ts';

interface ConstraintVector {
  readonly name: string;
  readonly constraints: JsonObject;
  readonly args: JsonObject;
  readonly resource?: string;
  readonly fails: string | null;
}

describe('the constraints of a passport', () => {
  it.each(loadVectors<ConstraintVector>('passport/constraints.yaml'))(
    'have the expected result: $name',
    (vector) => {
      const { constraints, args, resource = 'payment:pay_1', fails } = vector;
      const failure = firstPassportFailure(signedPassport({ resource_constraints: constraints }), {
        tenantId: 'acme',
        nowMs,
        action: { ...baseAction, args, resource },
      });
      expect(failure?.reason_code ?? null).toBe(fails);
    },
  );

  it('have no digest of arguments that JSON cannot represent', () => {
    expect(argsDigest({ a: '\ud800' })).toBeUndefined();
  });

  it('treat argument names such as __proto__ as data', () => {
    const args = JSON.parse('{"__proto__": {"amount": 900}, "amount": 1}') as JsonObject;
    const failure = firstPassportFailure(
      signedPassport({ resource_constraints: { max_amount: 10 } }),
      { tenantId: 'acme', nowMs, action: { ...baseAction, args } },
    );
    expect(failure?.reason_code).toBe('args.amount_exceeds_limit');
  });
});

describe('the permitted recipients of a passport', () => {
  const allowed = ['acme.com', '*.partner.example', 'münchen.example'];

  it.each(
    loadVectors<{ name: string; args: JsonObject; inside: boolean }>('passport/recipients.yaml'),
  )(
    'include the recipients of a call as expected: $name, permitted: $inside',
    ({ args, inside }) => {
      expect(externalRecipient(args, allowed) === undefined).toBe(inside);
    },
  );

  it('include no recipient if the permitted domain is malformed', () => {
    expect(externalRecipient({ to: 'a@b' }, ['b', '', '*', '*.', 'a@b.com'])).toBe('a@b');
    expect(externalRecipient({ to: 'a@acme.com' }, ['*', '**.com', '*.com/'])).toBe('a@acme.com');
  });

  it('are checked in linear time even for a hostile address', () => {
    const before = processorMs();
    for (const part of ['a.', ' ', '<', '"a" ', 'a-']) {
      expect(externalRecipient({ to: `${part.repeat(100_000)}@x` }, allowed)).toBeDefined();
    }
    expect(processorMs() - before).toBeLessThan(2_000);
  });
});
