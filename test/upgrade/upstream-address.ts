/**
 * The address of the stored bindings. Bindings name their port, so a stored one cannot use a free
 * port at run time; a separate loopback address prevents conflicts.
 */
export const upstreamAddress = '127.91.17.5';
export const upstreamPort = 17_391;
export const upstreamHost = `${upstreamAddress}:${upstreamPort}`;
