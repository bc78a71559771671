import { SettingsError } from '../../shared/base/settings.ts';
import { durationMs } from '../duration.ts';

export const periodOptions = {
  last: { type: 'string' },
  from: { type: 'string' },
  to: { type: 'string' },
} as const;

interface Period {
  readonly last?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The bounds that the API is asked for; those not given are left to it. */
export function periodOf({ last, from, to }: Period, nowMs: number) {
  if (last === undefined) return { ...(from && { from }), ...(to && { to }) };
  if (from !== undefined) throw new SettingsError('--last and --from: give one of them.');
  const sinceMs = nowMs - durationMs('--last', last);
  if (sinceMs < 0) throw new SettingsError('--last: reaches back too far.');
  return { from: new Date(sinceMs).toISOString(), ...(to && { to }) };
}
