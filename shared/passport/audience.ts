/** `aud` of a passport that every decision point accepts. */
export const gatewayAudience = 'gateway://agents';

/** `aud` of a passport that only one sidecar accepts. */
export function sidecarAudience(sidecarId: string): string {
  return `sidecar://${sidecarId}`;
}
