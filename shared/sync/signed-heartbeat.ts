import { signJws, verifyJws } from '../crypto/jws.ts';
import type { SigningKey, VerificationKeys } from '../crypto/signing-key.ts';
import { heartbeatSchema } from './section-schemas.ts';
import { type Heartbeat, heartbeatType } from './sections.ts';
import { malformed, type Refused } from './signed-section.ts';

/** The name of the heartbeat section on the bus. */
export const heartbeatSection = 'heartbeat';

type OpenedHeartbeat = { readonly ok: true; readonly heartbeat: Heartbeat } | Refused;

export function signHeartbeat(heartbeat: Heartbeat, key: SigningKey): string {
  return signJws(heartbeat, heartbeatType, key);
}

/** Verifies a heartbeat: form and signature, then the tenant. Never throws. */
export function openHeartbeat(
  token: string,
  keys: VerificationKeys,
  expected: { readonly tenant: string },
): OpenedHeartbeat {
  const verified = verifyJws(token, heartbeatType, keys);
  if (!verified.ok) return verified;
  const heartbeat = heartbeatSchema.safeParse(verified.payload);
  if (!heartbeat.success) return malformed(heartbeat.error);
  const { tenant } = heartbeat.data;
  return tenant === expected.tenant
    ? { ok: true, heartbeat: heartbeat.data }
    : { ok: false, problem: 'wrong_tenant', detail: `it belongs to tenant ${tenant}` };
}
