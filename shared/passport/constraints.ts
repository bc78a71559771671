import type { JsonObject, JsonValue } from '../base/json.ts';
import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import type { ErrorCode } from '../errors/error-kinds.ts';
import type { Action } from '../vocabulary/action.ts';
import { parseResource } from '../vocabulary/resource.ts';
import { externalRecipient, valuesNamed } from './recipients.ts';

interface Violation {
  readonly reasonCode: ErrorCode;
  readonly message: string;
}

/** The part of an action that constraints apply to. */
type ConstrainedCall = Pick<Action, 'resource' | 'args'>;

/**
 * The constraints that code enforces, in the order of checking; policies can read all others. A
 * call is refused if a constraint is malformed or cannot be checked against the call.
 */
export const constraintNames = [
  'max_amount',
  'customer_id',
  'allowed_domains',
  'args_digest',
] as const;
type ConstraintName = (typeof constraintNames)[number];

/** The violation of one constraint; undefined if the constraint is absent or satisfied. */
export function violates(
  name: ConstraintName,
  constraints: JsonObject,
  call: ConstrainedCall,
): Violation | undefined {
  if (!Object.hasOwn(constraints, name)) return undefined;
  const limit = constraints[name];
  switch (name) {
    case 'max_amount':
      return exceedsAmount(limit, call);
    case 'customer_id':
      return violatesCustomer(limit, call);
    case 'allowed_domains':
      return violatesDomains(limit, call);
    case 'args_digest':
      return violatesArgsDigest(limit, call);
  }
}

const amountNames = new Set(['amount']);

/** Checks every `amount` in the arguments, at any depth, by its absolute value. */
function exceedsAmount(limit: JsonValue | undefined, { args }: ConstrainedCall) {
  const reasonCode = 'args.amount_exceeds_limit';
  const max = readAmount(limit);
  if (max === undefined)
    return { reasonCode, message: unreadable('max_amount', 'a number') } as const;
  const amounts = valuesNamed(args, amountNames);
  // Without an amount, many payment APIs use the full amount.
  if (amounts.length === 0) {
    return {
      reasonCode,
      message: `The passport allows amounts up to ${max}, but this call has none; send args.amount.`,
    } as const;
  }
  for (const value of amounts) {
    const amount = readAmount(value);
    if (amount === undefined) {
      return {
        reasonCode,
        message: 'args.amount is not a plain number; send a decimal number without exponent.',
      } as const;
    }
    if (Math.abs(amount) > max) {
      return {
        reasonCode,
        message: `args.amount is ${amount}, but the passport allows up to ${max}.`,
      } as const;
    }
  }
  return undefined;
}

// At most 15 digits, so that the compared number equals the written one.
const decimalForm = /^-?\d{1,15}$|^(?=.{3,16}$)-?\d+\.\d+$/;

function readAmount(value: JsonValue | undefined): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  return typeof value === 'string' && decimalForm.test(value) ? Number(value) : undefined;
}

function violatesCustomer(limit: JsonValue | undefined, call: ConstrainedCall) {
  const reasonCode = 'args.resource_out_of_scope';
  if (!isId(limit)) {
    return { reasonCode, message: unreadable('customer_id', 'a text or a number') } as const;
  }
  const named = valuesNamed(call.args, customerNames);
  const { type, id } = parseResource(call.resource);
  const customers = type === 'customer' ? [...named, id] : named;
  if (
    customers.length > 0 &&
    customers.every((one) => isId(one) && String(one) === String(limit))
  ) {
    return undefined;
  }
  return {
    reasonCode,
    message:
      customers.length === 0
        ? `The passport is for customer ${limit}, but this call names none; send args.customer_id.`
        : `The passport is for customer ${limit} only.`,
  } as const;
}

const customerNames = new Set(['customer_id']);

function isId(value: JsonValue | undefined): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number';
}

/** A call without recipients satisfies the constraint. */
function violatesDomains(limit: JsonValue | undefined, { args }: ConstrainedCall) {
  const reasonCode = 'args.external_recipient';
  const allowed = typeof limit === 'string' ? [limit] : limit;
  if (!Array.isArray(allowed) || !allowed.every((one) => typeof one === 'string')) {
    return { reasonCode, message: unreadable('allowed_domains', 'a list of domains') } as const;
  }
  const outside = externalRecipient(args, allowed);
  return outside === undefined
    ? undefined
    : ({
        reasonCode,
        message: `The recipient ${JSON.stringify(outside.slice(0, 100))} is not within the allowed domains ${allowed.join(', ')}.`,
      } as const);
}

function violatesArgsDigest(limit: JsonValue | undefined, { args }: ConstrainedCall) {
  return typeof limit === 'string' && limit === argsDigest(args)
    ? undefined
    : ({
        reasonCode: 'args.digest_mismatch',
        message: 'The arguments differ from those that the passport was issued for.',
      } as const);
}

/** `sha256:<hex>` over the JCS form of arguments; undefined if there is no such form. */
export function argsDigest(args: JsonObject): string | undefined {
  try {
    return sha256(canonicalJson(args));
  } catch {
    return undefined;
  }
}

function unreadable(name: ConstraintName, form: string): string {
  return `The passport's resource_constraints.${name} is not ${form}.`;
}
