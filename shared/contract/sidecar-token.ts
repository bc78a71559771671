/**
 * `typ` of the short-lived JWT that authenticates an enrolled sidecar, signed with the sidecar's
 * own key.
 */
export const sidecarTokenType = 'sallyport-sidecar+jwt';
/** `aud` of this JWT. */
export const sidecarTokenAudience = 'sallyport-control-plane';
/** Maximum lifetime of the JWT. */
export const sidecarTokenSecondsMax = 60;
