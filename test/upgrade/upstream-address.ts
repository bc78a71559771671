/**
 * The address in the stored bindings. Bindings name their port, so a stored binding cannot use a
 * port that is chosen at run time. A loopback address of its own prevents conflicts.
 */
export const upstreamAddress = '127.91.17.5';
export const upstreamPort = 17_391;
export const upstreamHost = `${upstreamAddress}:${upstreamPort}`;
