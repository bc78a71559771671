import { SettingsError } from '../../shared/base/settings.ts';

export interface PeriodOptions {
  /** Milliseconds. */
  readonly last?: number;
  readonly from?: string;
  readonly to?: string;
}

/** The period's bounds for the API, which applies its own defaults to missing bounds. */
export function periodQuery({ last, from, to }: PeriodOptions, nowMs: number) {
  if (last === undefined) return { ...(from && { from }), ...(to && { to }) };
  const sinceMs = nowMs - last;
  if (sinceMs < 0) throw new SettingsError('--last: the period starts before 1970; shorten it.');
  return { from: new Date(sinceMs).toISOString(), ...(to && { to }) };
}
