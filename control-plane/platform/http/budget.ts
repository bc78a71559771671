import type { Response } from 'express';
import type { AnyOperation, Budget } from '../../../shared/contract/base/operation.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Caller } from '../access/caller.ts';
import type { Platform } from '../platform.ts';

const windowMs = 60_000;
/**
 * After a failure of the bus, requests are counted in process for this long, so that an outage does
 * not slow requests.
 */
const retryBusMs = 5_000;
const localCountersMax = 10_000;
/** Tenant id for the budgets of callers without a tenant. No real tenant can have this id. */
const publicTenant = '_public';
const nobody = { tenantId: '' };

export interface BudgetLimits {
  /** Requests per minute. */
  readonly requestsPerMinute: Readonly<Record<Budget, number>>;
  /** Unknown keys per address and minute; default 600. */
  readonly unknownKeysPerMinute?: number;
}

const unknownKeysPerMinuteDefault = 600;

export const defaultLimits: BudgetLimits = {
  requestsPerMinute: { tenant: 600, control: 600, sidecar: 6_000, address: 120 },
};

/**
 * Processor time that is included in one request. Each further slice of this length counts as
 * another request as soon as it begins.
 */
const timeSliceMs = 10;
/**
 * Maximum share of a budget that the processor time of one request consumes, so that one request
 * cannot block all others.
 */
const timeShareMax = 0.1;

interface Usage {
  readonly count: number;
  readonly resetMs: number;
}

export interface Budgets {
  /** Counts one request and sets the response's rate-limit headers; throws `rate_limited`. */
  charge(operation: AnyOperation, caller: Caller, res: Response): Promise<void>;
  /** Counts the processor time of a request that was already counted. Never throws. */
  chargeTime(operation: AnyOperation, caller: Caller, processorMs: number): Promise<void>;
  /**
   * Counts a refused request against the tenant's budget, even if the operation has another budget.
   */
  chargeRefused(caller: Caller, res: Response): Promise<void>;
  /** Counts an unknown key against its address, before the key is looked up. */
  chargeUnknownKey(address: string, res: Response): Promise<void>;
}

export function createBudgets(
  { bus, clock, log }: Pick<Platform, 'bus' | 'clock' | 'log'>,
  {
    requestsPerMinute,
    unknownKeysPerMinute = unknownKeysPerMinuteDefault,
  }: BudgetLimits = defaultLimits,
): Budgets {
  const local = localCounters(() => clock.monotonic());
  let busBackAt = 0;

  const count = async (tenantId: string, key: string, by: number): Promise<Usage> => {
    if (clock.monotonic() < busBackAt) return local(`${tenantId} ${key}`, by);
    try {
      return await bus.count(tenantId, key, windowMs, by);
    } catch (error) {
      busBackAt = clock.monotonic() + retryBusMs;
      log.warn(
        { err: error },
        'the bus is unavailable; request budgets are counted in this process',
      );
      return local(`${tenantId} ${key}`, by);
    }
  };

  const consume = async (
    name: string,
    key: string,
    max: number,
    who: Pick<Caller, 'tenantId'>,
    res: Response,
  ) => {
    const { count: used, resetMs } = await count(tenantOf(who), `budget:${key}`, 1);
    const resetSeconds = Math.max(1, Math.ceil(resetMs / 1000));
    res.setHeader('ratelimit-policy', `"${name}";q=${max};w=${windowMs / 1000}`);
    res.setHeader('ratelimit', `"${name}";r=${Math.max(0, max - used)};t=${resetSeconds}`);
    if (used <= max) return;
    res.setHeader('retry-after', String(resetSeconds));
    throw new GatewayError('rate_limited');
  };

  return {
    charge: (operation, caller, res) => {
      const { name, key, max } = counterOf(operation, caller, requestsPerMinute);
      return consume(name, key, max, caller, res);
    },
    chargeTime: async (operation, caller, processorMs) => {
      const { key, max } = counterOf(operation, caller, requestsPerMinute);
      const slices = Math.ceil(processorMs / timeSliceMs) - 1;
      const by = Math.min(slices, Math.floor(max * timeShareMax));
      if (by > 0) await count(tenantOf(caller), `budget:${key}`, by);
    },
    chargeUnknownKey: (address, res) =>
      consume('unknown_keys', `unknown_keys:${address}`, unknownKeysPerMinute, nobody, res),
    chargeRefused: (caller, res) =>
      consume('tenant', 'tenant', requestsPerMinute.tenant, caller, res),
  };
}

function tenantOf({ tenantId }: Pick<Caller, 'tenantId'>): string {
  return tenantId === '' ? publicTenant : tenantId;
}

/** Returns the counter of a request, and its limit. */
function counterOf(
  operation: AnyOperation,
  caller: Caller,
  requestsPerMinute: BudgetLimits['requestsPerMinute'],
): { readonly name: string; readonly key: string; readonly max: number } {
  const budget = operation.budget ?? defaultBudget(caller);
  const own = operation.budgetPerMinute;
  const name = own === undefined ? budget : operation.id;
  return { name, key: keyOf(budget, name, caller), max: own ?? requestsPerMinute[budget] };
}

function defaultBudget(caller: Caller): Budget {
  if (caller.kind === 'sidecar') return 'sidecar';
  return caller.kind === 'anonymous' ? 'address' : 'tenant';
}

/** Returns the key of a counter. Each sidecar and each address has a counter of its own. */
function keyOf(budget: Budget, name: string, caller: Caller): string {
  if (budget === 'address') return `${name}:${caller.address}`;
  return budget === 'sidecar' ? `${name}:${caller.sidecarId ?? ''}` : name;
}

/**
 * Creates counters in this process. The table is bounded: while it is full of live counters, every
 * request without a counter is over budget.
 */
function localCounters(now: () => number): (key: string, by: number) => Usage {
  const counters = new Map<string, { count: number; endsAt: number }>();
  return (key, by) => {
    const found = counters.get(key);
    if (found !== undefined && found.endsAt > now()) {
      found.count += by;
      return { count: found.count, resetMs: found.endsAt - now() };
    }
    if (found === undefined && counters.size >= localCountersMax) {
      for (const [name, { endsAt }] of counters) if (endsAt <= now()) counters.delete(name);
      if (counters.size >= localCountersMax) {
        return { count: Number.MAX_SAFE_INTEGER, resetMs: windowMs };
      }
    }
    counters.set(key, { count: by, endsAt: now() + windowMs });
    return { count: by, resetMs: windowMs };
  };
}
