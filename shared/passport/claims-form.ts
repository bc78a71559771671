import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { riskTiers } from '../vocabulary/action.ts';
import type { PassportClaims } from './claims.ts';
import { ttlSecondsMax } from './issue.ts';

type Form = (value: JsonValue | undefined) => boolean;

const isText: Form = (value) => typeof value === 'string';
const isName: Form = (value) => typeof value === 'string' && value !== '' && value.length <= 1024;
const isSeconds: Form = (value) => Number.isSafeInteger(value) && Number(value) > 0;
const isNames: Form = (value) => Array.isArray(value) && value.every(isName);
const isTier: Form = (value) => riskTiers.some((tier) => tier === value);
// No dot, because `<jti>.<n>` names the uses of a lease and must be unambiguous.
const isJti: Form = (value) => typeof value === 'string' && /^[A-Za-z0-9_-]{1,128}$/.test(value);
const isLeaseSize: Form = (value) =>
  value === undefined || (Number.isSafeInteger(value) && Number(value) > 0);

const forms: Readonly<Record<keyof PassportClaims, Form>> = {
  iss: isName,
  sub: isName,
  aud: isName,
  tenant_id: isName,
  user_id: isName,
  goal: isText,
  allowed_tools: isNames,
  allowed_resources: isNames,
  resource_constraints: isJsonObject,
  risk_tier: isTier,
  policy_id: isText,
  policy_hash: isText,
  approval_hash: (value) => value === null || isText(value),
  jti: isJti,
  iat: isSeconds,
  nbf: isSeconds,
  exp: isSeconds,
  lease_size: isLeaseSize,
};
const names = Object.keys(forms) as readonly (keyof PassportClaims)[];

const leaseTtlSecondsMax = 86_400;

/**
 * The problem with a passport's claims, or undefined. Unknown claims are refused, because they may
 * be a restriction from a newer control plane.
 */
export function claimsProblem(payload: JsonObject): string | undefined {
  for (const name of names) {
    const value = Object.hasOwn(payload, name) ? payload[name] : undefined;
    if (!forms[name](value)) return `the claim ${name} is missing or has the wrong type`;
  }
  const unknown = Object.keys(payload).find((name) => !Object.hasOwn(forms, name));
  if (unknown !== undefined) return `the claim ${unknown} is not known`;
  return lifetimeProblem(Number(payload.iat), Number(payload.nbf), Number(payload.exp), payload);
}

function lifetimeProblem(
  iat: number,
  nbf: number,
  exp: number,
  { lease_size }: JsonObject,
): string | undefined {
  if (nbf < iat) return 'nbf is before iat';
  if (exp <= nbf) return 'exp is not after nbf';
  const longest = lease_size === undefined ? ttlSecondsMax : leaseTtlSecondsMax;
  return exp - iat > longest ? `the passport is valid for more than ${longest} seconds` : undefined;
}
