/** `aud` of a passport for every decision point. */
export const gatewayAudience = 'gateway://agents';

/** `aud` of a passport for a single sidecar. */
export function sidecarAudience(sidecarId: string): string {
  return `sidecar://${sidecarId}`;
}
