/** `aud` of a passport for whichever decision point its agent meets. */
export const gatewayAudience = 'gateway://agents';

/** `aud` of a passport for one sidecar alone. */
export function sidecarAudience(sidecarId: string): string {
  return `sidecar://${sidecarId}`;
}
