/** `typ` of the short JWT by which an enrolled sidecar proves itself, signed by its own key. */
export const sidecarTokenType = 'sallyport-sidecar+jwt';
/** Its `aud`. */
export const sidecarTokenAudience = 'sallyport-control-plane';
/** How long it may live. */
export const sidecarTokenSecondsMax = 60;
