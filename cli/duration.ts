import { SettingsError } from '../shared/base/settings.ts';

const unitsMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `7d`, `12h`, `30m`, `90s` in milliseconds. */
export function durationMs(option: string, text: string): number {
  const [, number, unit] = /^([1-9]\d{0,5})([smhd])$/.exec(text) ?? [];
  if (number === undefined) {
    throw new SettingsError(`${option}: must be a time such as 7d, 12h or 30m, not ${text}.`);
  }
  return Number(number) * unitsMs[unit as keyof typeof unitsMs];
}
